package ledger

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What is asked at each word of a proxy looks at no Address that is simply granted.
func TestGrantedAddressesAreNotLookedAtAgain(t *testing.T) {
	k := New(Options{Logger: slog.New(slog.DiscardHandler), Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {}})
	version := 0
	see := func(n int, phase v1alpha1.AddressPhase, missing string) *v1alpha1.Address {
		version++
		a := &v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("10.0.%d.%d", n/250, n%250+1), ResourceVersion: fmt.Sprint(version)},
			Spec: v1alpha1.AddressSpec{
				Address: fmt.Sprintf("10.0.%d.%d", n/250, n%250+1), Pool: "public", ProxyPool: "edge", Phase: phase,
				Holders: []v1alpha1.Holder{{Namespace: "prod", Name: fmt.Sprintf("web-%d", n), Ports: []string{"TCP/80"}}},
			},
		}
		a.UID = types.UID(a.Name)
		if missing != "" {
			a.Annotations = map[string]string{annotationMissing: missing}
		}
		k.Observe(a)
		return a
	}
	const many = 1000
	for n := range many {
		see(n, v1alpha1.AddressGranted, "")
	}
	looked := func() (n int) {
		k.filter(func(*v1alpha1.Address) bool { n++; return true })
		return n
	}
	if n := looked(); n != 0 {
		t.Errorf("%d of %d granted Addresses are looked at", n, many)
	}
	see(1, v1alpha1.AddressReleasing, "")
	gone := see(2, v1alpha1.AddressReleasing, "")
	see(3, v1alpha1.AddressGranted, "prod/web-3")
	see(4, v1alpha1.AddressReleasing, "")
	see(5, v1alpha1.AddressGranted, "prod/web-5")
	see(4, v1alpha1.AddressGranted, "") // came back
	see(5, v1alpha1.AddressGranted, "")
	k.Forget(gone)
	if n := looked(); n != 2 {
		t.Errorf("%d Addresses are looked at, 2 are being released or kept", n)
	}
	names := func(all []Address) (out []string) {
		for _, a := range all {
			out = append(out, a.Object.Name)
		}
		slices.Sort(out)
		return out
	}
	for what, c := range map[string]struct{ got, want []string }{
		"being released": {names(k.Releasing("edge")), []string{"10.0.0.2"}},
		"of the pool":    {names(k.ReleasingInPool("public")), []string{"10.0.0.2"}},
		"kept":           {names(k.Held("public")), []string{"10.0.0.4"}},
		"kept for prod":  {names(k.HeldFor("prod")), []string{"10.0.0.4"}},
		"both":           {names(k.Unsettled()), []string{"10.0.0.2", "10.0.0.4"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}
