package fleet

import (
	"context"
	"errors"
	"sync"

	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
)

// Accounts of config/rbac in the system namespace: the first of the hub, the other of a tenant cluster.
const (
	managerAccount = "fairlead-manager"
	agentAccount   = "fairlead-agent"
)

// install installs the kinds, and the roles and identities under which everything runs.
func (f *Fleet) install(ctx context.Context) error {
	errs := make([]error, len(f.Tenants))
	var all sync.WaitGroup
	for i, t := range f.Tenants {
		all.Go(func() { errs[i] = rbac.InstallTenant(ctx, t.RESTConfig()) })
	}
	err := crd.Install(ctx, f.Hub.RESTConfig())
	if err == nil {
		err = rbac.InstallHub(ctx, f.Hub.RESTConfig())
	}
	all.Wait()
	return errors.Join(append(errs, err)...)
}
