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
	err := f.installHub(ctx)
	all.Wait()
	return errors.Join(append(errs, err)...)
}

func (f *Fleet) installHub(ctx context.Context) error {
	if err := crd.Install(ctx, f.Hub.RESTConfig()); err != nil {
		return err
	}
	return rbac.InstallHub(ctx, f.Hub.RESTConfig())
}

// Reinstall makes of an empty hub what the first one was: kinds, roles, identities, pools, classes, tenants. Each program gets a token of its
// identity there, and is restarted with it. What the tenants and proxies had is left to the product.
func (f *Fleet) Reinstall(ctx context.Context) error {
	if err := f.installHub(ctx); err != nil {
		return err
	}
	if err := f.applyHub(ctx); err != nil {
		return err
	}
	if err := f.identify(ctx, managerIdentity, nil); err != nil {
		return err
	}
	if err := f.Manager.Restart(ctx); err != nil {
		return err
	}
	for i, p := range f.Proxies {
		if err := f.makeProxyAccount(ctx, i+1); err != nil {
			return err
		}
		if err := f.identify(ctx, proxyIdentity(p.Name), p.relay); err != nil {
			return err
		}
		if err := p.Restart(ctx); err != nil {
			return err
		}
	}
	for _, t := range f.Tenants {
		if err := f.identify(ctx, agentIdentity(t), nil); err != nil {
			return err
		}
		if err := t.Agent.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}
