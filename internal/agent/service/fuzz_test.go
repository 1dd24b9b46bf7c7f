package service_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"
)

// Whatever a user writes into annotations: what the agent asks of the hub has the form that the hub's schema takes (where it
// is too many of something, the hub's refusal is shown), it is the same each time, and no limit on clients gets lost.
func FuzzAnnotations(f *testing.F) {
	for _, a := range [][7]string{
		{},
		{"edge", "public, other", "192.0.2.7,2001:db8::7", "5m", "V2", "10.0.0.0/8,192.0.2.0/24", "192.0.2.9"},
		{" ", ",,", "::ffff:192.0.2.7", "-1s", "v1 ", "0.0.0.0/0", "fe80::1%eth0"},
		{"x", "a", "192.0.2.07", "721h", "3", "10.0.0.1", "x"},
		{"x", "a,a,a,a,a,a,a,a,a,a,a,a", "192.0.2.1,192.0.2.1", "9223372036854775807ns", "V1\n", "::/0,0.0.0.0/0", "::"},
		{"", "", "", "", "", " , ", ""},
		{"", strings.Repeat("p", 300), "", "1e3s", "V٢", "10.0.0.0/8 ,", "127.0.0.1"},
	} {
		f.Add(a[0], a[1], a[2], a[3], a[4], a[5], a[6])
	}
	f.Fuzz(func(t *testing.T, class, pools, addresses, drain, proxy, ranges, ip string) {
		s := web(func(s *v1.Service) {
			s.Annotations = map[string]string{
				v1alpha1.AnnotationClass: class, v1alpha1.AnnotationAddressPool: pools, v1alpha1.AnnotationAddresses: addresses,
				v1alpha1.AnnotationDrainTimeout: drain, v1alpha1.AnnotationProxyProtocol: proxy, v1.AnnotationLoadBalancerSourceRangesKey: ranges,
			}
			s.Spec.LoadBalancerIP = ip
		})
		w := service.Want(s, class, nil)
		if !w.Equal(service.Want(s, class, nil)) {
			t.Fatal("another answer to the same question")
		}
		for _, a := range w.Spec.Addresses {
			if p, err := netip.ParseAddr(a); err != nil || p.Zone() != "" || p.Is4In6() || p.String() != a {
				t.Errorf("it wants the address %q", a)
			}
		}
		for _, r := range w.Spec.SourceRanges {
			if p, err := netip.ParsePrefix(r); err != nil || p.Masked() != p {
				t.Errorf("it wants the source range %q", r)
			}
		}
		if d := w.Spec.DrainTimeout; d != nil && (d.Duration < 0 || d.Duration > 720*time.Hour || len(d.Duration.String()) > 32) {
			t.Errorf("it wants the drainTimeout %s", d.Duration)
		}
		if p := w.Spec.ProxyProtocol; p != "" && p != "V1" && p != "V2" {
			t.Errorf("it wants PROXY protocol %q", p)
		}
		for _, p := range w.Problems {
			if p.Field == "" || p.Reason == "" || p.Message == "" {
				t.Errorf("a problem without field, reason or message: %+v", p)
			}
			if p.Refuses && len(w.Spec.Ports) > 0 {
				t.Errorf("%s is refused and has ports", p.Field)
			}
		}
		if limited(ranges) && len(w.Spec.SourceRanges) == 0 && len(w.Spec.Ports) > 0 {
			t.Errorf("source ranges %q, and everybody may connect", ranges)
		}
		service.Judge(s, w.Problems, nil)
	})
}

// limited: the text names something, and it isn't everybody.
func limited(ranges string) bool {
	for r := range strings.SplitSeq(ranges, ",") {
		_, p, err := netutils.ParseCIDRSloppy(strings.TrimSpace(r))
		if err != nil {
			return strings.TrimSpace(ranges) != ""
		}
		if n, _ := p.Mask.Size(); n > 0 {
			return true
		}
	}
	return false
}
