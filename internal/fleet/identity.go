package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// builtin is the data plane that is the proxy's own process.
const builtin = "builtin"

// identity is the ServiceAccount of the hub under which a program runs.
type identity client.ObjectKey

var managerIdentity = identity{Namespace: v1alpha1.SystemNamespace, Name: managerAccount}

// agentIdentity is made by the manager, with the Tenant.
func agentIdentity(t *Tenant) identity {
	return identity{Namespace: t.Name(), Name: v1alpha1.AgentServiceAccount}
}

// proxyIdentity has the proxy's name, and may write under no other.
func proxyIdentity(proxy string) identity {
	return identity{Namespace: v1alpha1.ProxyNamespace, Name: proxy}
}

func proxyName(number int) string { return fmt.Sprintf("edge-%d", number) }

// makeProxyAccount does what config/rbac/README.md has a person do.
func (f *Fleet) makeProxyAccount(ctx context.Context, number int) error {
	name := proxyName(number)
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: name}}
	if err := f.Hub.API.Create(ctx, account); err != nil {
		return fmt.Errorf("making the identity of %s: %w", name, err)
	}
	return nil
}

// kubeconfig is the file with the token of an identity, where identify writes it.
func (f *Fleet) kubeconfig(id identity) string {
	return filepath.Join(f.Dir, fmt.Sprintf("hub-%s-%s.kubeconfig", id.Namespace, id.Name))
}

// identify waits until the hub has an identity, and writes a new token of it to its kubeconfig, which goes by a relay, or straight
// to the hub if that is nil.
func (f *Fleet) identify(ctx context.Context, id identity, by *Relay) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	fresh := ""
	err := testkit.Poll(ctx, 20*time.Millisecond, fmt.Sprintf("service account %s/%s of the hub", id.Namespace, id.Name), func(ctx context.Context) (err error) {
		fresh, err = f.Hub.ServiceAccountKubeconfig(ctx, id.Namespace, id.Name)
		return err
	})
	if err != nil {
		return err
	}
	if by == nil {
		return os.Rename(fresh, f.kubeconfig(id))
	}
	return errors.Join(by.Kubeconfig(fresh, f.kubeconfig(id)), os.Remove(fresh))
}
