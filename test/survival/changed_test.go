package survival

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hubRestored: the hub's etcd goes back to an older copy, once with versions that go back too, and once with versions that an
// operator has raised. In the copy the first tenant has an address that is the second's by now, and a Service is missing.
// What runs wins: both addresses are served on for who has them, and the ledger learns it.
func hubRestored(t *testing.T, w *world) {
	for _, bump := range []int{0, 5000} {
		h := w.waiting(t)
		saved, err := w.Hub.SaveCopy()
		must(t, err)
		giveUp(t, h.holder, "scarce")
		w.passedOn(t, h, w.all()...)
		makeService(t, h.holder, "young", "")
		young := awaitAddress(t, h.holder, "young")
		awaitAnswers(t, h.holder, young, w.all()...)
		epoch := w.epoch(t)

		w.window(t, w.all(), [2]int{held, held}, func() {
			must(t, w.Hub.Restore(t.Context(), saved, bump))
			serves := func(ctx context.Context) error {
				if err := answers(ctx, h.waiter, h.address, w.all()...); err != nil {
					return err
				}
				return answers(ctx, h.holder, young, w.all()...)
			}
			w.untilThawed(t, epoch, v1alpha1.ReasonHubRestored, serves)
			w.grantedTo(t, h.address.String(), h.waiter.Name())
			w.grantedTo(t, young.String(), h.holder.Name())
			throughout(t, 3*time.Second, "both are served on", serves)
			w.grantsAgain(t)
		})
		deleteService(t, h.holder, "young")
		w.awaitFree(t, h)
	}
}

// hubReplaced: an empty hub answers at the hub's address. Nobody has an identity there, and everything is served on. Then a
// person installs it as the first one was, and all that is served has its address there too.
func hubReplaced(t *testing.T, w *world) {
	tenant := w.Tenants[0]
	makeService(t, tenant, "young", "")
	young := awaitAddress(t, tenant, "young")
	awaitAnswers(t, tenant, young, w.all()...)
	epoch := w.epoch(t)
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, w.Hub.Empty(t.Context()))
		serves := func(ctx context.Context) error { return answers(ctx, tenant, young, w.all()...) }
		throughout(t, scaled(5*time.Second, time.Minute), "it is served without a hub that knows it", serves)
		w.installAgain(t)
		w.untilThawed(t, epoch, v1alpha1.ReasonHubReplaced, serves)
		w.grantedTo(t, young.String(), tenant.Name())
		for i, a := range w.web {
			w.grantedTo(t, a.String(), w.Tenants[i].Name())
		}
		w.grantsAgain(t)
	})
	deleteService(t, tenant, "young")
	awaitRefusal(t, young, w.all()...)
}

// installAgain makes of an empty hub what the first one was: kinds, roles, identities, pools, classes, tenants. Each program's
// kubeconfig gets a token of its identity there, and each is restarted with it.
func (w *world) installAgain(t *testing.T) {
	t.Helper()
	must(t, crd.Install(t.Context(), w.Hub.RESTConfig()))
	must(t, rbac.InstallHub(t.Context(), w.Hub.RESTConfig()))
	objects, err := w.Network.Example("hub.yaml")
	must(t, err)
	must(t, w.Hub.Apply(t.Context(), objects...))
	for _, p := range w.Proxies {
		must(t, w.Hub.API.Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: p.Name}}))
	}
	files := identities(t, w.Hub.Dir())
	for file, sub := range files {
		if !strings.HasSuffix(sub, ":"+v1alpha1.AgentServiceAccount) {
			w.renew(t, sub, file)
		}
	}
	restart(t, w.Manager)
	for _, p := range w.Proxies {
		restart(t, p.Program)
	}
	for file, sub := range files {
		if strings.HasSuffix(sub, ":"+v1alpha1.AgentServiceAccount) {
			w.renew(t, sub, file) // The manager makes these.
		}
	}
	for _, tenant := range w.Tenants {
		restart(t, tenant.Agent)
	}
}

// identities are the kubeconfigs of ServiceAccounts in a folder, and the account of each, as system:serviceaccount:namespace:name.
func identities(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "serviceaccount-*.kubeconfig"))
	must(t, err)
	out := map[string]string{}
	for _, file := range files {
		c, err := clientcmd.LoadFromFile(file)
		must(t, err)
		for _, who := range c.AuthInfos {
			parts := strings.Split(who.Token, ".")
			if len(parts) != 3 {
				t.Fatalf("%s holds no token", file)
			}
			text, err := base64.RawURLEncoding.DecodeString(parts[1])
			must(t, err)
			claims := struct {
				Sub string `json:"sub"`
			}{}
			must(t, json.Unmarshal(text, &claims))
			out[file] = claims.Sub
		}
	}
	return out
}

// renew writes a new token of an identity to its kubeconfig, once the identity is there.
func (w *world) renew(t *testing.T, sub, file string) {
	t.Helper()
	parts := strings.Split(sub, ":")
	fresh := ""
	eventually(t, soon, sub+" to be there", func(ctx context.Context) (err error) {
		fresh, err = w.Hub.ServiceAccountKubeconfig(ctx, parts[2], parts[3])
		return err
	})
	must(t, os.Rename(fresh, file))
}

// epoch is the highest that any proxy has adopted.
func (w *world) epoch(t *testing.T) int64 {
	t.Helper()
	list := &v1alpha1.ProxyList{}
	must(t, w.Hub.API.List(t.Context(), list))
	epoch := int64(0)
	for _, p := range list.Items {
		epoch = max(epoch, p.Status.Epoch)
	}
	return epoch
}

// untilThawed waits until each proxy has said that the hub changed, for that reason, and then that it follows it, in an epoch
// after that one. Something holds all the while.
func (w *world) untilThawed(t *testing.T, epoch int64, reason string, meanwhile func(context.Context) error) {
	t.Helper()
	frozen := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
	defer cancel()
	for {
		if err := meanwhile(ctx); err != nil {
			t.Fatalf("while the proxies look at the hub: %s", err)
		}
		waits := ""
		for _, p := range w.Proxies {
			o := &v1alpha1.Proxy{}
			if err := w.Hub.API.Get(ctx, client.ObjectKey{Name: p.Name}, o); err != nil {
				waits = err.Error()
				continue
			}
			c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionHubChanged)
			switch {
			case c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason:
				frozen[p.Name] = true
				waits = fmt.Sprintf("%s is frozen: %s", p.Name, c.Message)
			case !frozen[p.Name]:
				waits = fmt.Sprintf("%s has not said that the hub changed: %v", p.Name, c)
			case o.Status.Epoch <= epoch:
				waits = fmt.Sprintf("%s is in epoch %d", p.Name, o.Status.Epoch)
			}
		}
		if waits == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the proxies don't follow the hub: %s", waits)
		case <-time.After(look):
		}
	}
}

// grantedTo waits until the ledger has an address for that tenant.
func (w *world) grantedTo(t *testing.T, address, namespace string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to be %s's", address, namespace), func(ctx context.Context) error {
		a := &v1alpha1.Address{}
		if err := w.Hub.API.Get(ctx, client.ObjectKey{Name: address}, a); err != nil {
			return err
		}
		if a.Spec.Phase != v1alpha1.AddressGranted || len(a.Spec.Holders) != 1 || a.Spec.Holders[0].Namespace != namespace {
			return fmt.Errorf("it is %s for %v", a.Spec.Phase, a.Spec.Holders)
		}
		return nil
	})
}

// grantsAgain sees that a new Service is served, and ends it.
func (w *world) grantsAgain(t *testing.T) {
	t.Helper()
	tenant := w.Tenants[1]
	makeService(t, tenant, "after", "")
	a := awaitAddress(t, tenant, "after")
	awaitAnswers(t, tenant, a, w.all()...)
	deleteService(t, tenant, "after")
	awaitRefusal(t, a, w.all()...)
}
