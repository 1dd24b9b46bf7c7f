package fleet

import "context"

const (
	managerAccount = "fairlead-manager"
	proxyAccount   = "fairlead-proxy"
	agentAccount   = "fairlead-agent"
)

// install installs kinds, the system namespace and the roles under which everything runs.
func (f *Fleet) install(ctx context.Context) error {
	if err := f.installKinds(ctx); err != nil {
		return err
	}
	return nil
}
