package limits_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// siege is a hub with a manager, a proxy, a tenant that asks for what it may not have, and one that wants little.
type siege struct {
	*hub
	// mallory is the hostile tenant's client, with its agent's identity; managerLog is what the manager says.
	mallory         client.Client
	managerLog      string
	alpha, beta     netip.AddrPort // targets, which say so
	web, own        *clusterv1.LoadBalancer
	webAt, ownAt    netip.AddrPort
	private, wished *v1alpha1.AddressPool
}

// What a tenant asks for that it may not have is refused, in words that name object, field and fix; it costs nobody else anything, nor
// what else the tenant has.
func TestHostileTenant(t *testing.T) {
	h := startHub(t, testkit.Options{Name: "hub", Audit: true})
	mallory, quiet, wide := tenant("mallory", nil), tenant("quiet", nil), tenant("wide", nil)
	mallory.Spec.TargetCIDRs, mallory.Spec.Classes = []string{"127.0.0.1/32", "127.0.0.2/32"}, []string{class, "wishes"}
	wide.Spec.TargetCIDRs = []string{"0.0.0.0/0", "::/0"}
	h.basics(mallory, quiet, wide)
	s := &siege{hub: h, managerLog: filepath.Join(t.TempDir(), "manager.log")}
	s.alpha, s.beta = startTwins(t)
	s.wished = &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "wished"}, Spec: v1alpha1.AddressPoolSpec{Requestable: true, Ranges: []string{h.address(200).String() + "-" + h.address(209).String()}}}
	s.private = &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "private"}, Spec: v1alpha1.AddressPoolSpec{
		Requestable: true, Ranges: []string{h.address(210).String() + "-" + h.address(219).String()}, Use: &v1alpha1.PoolUse{Tenants: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}}}
	h.create(s.wished, s.private, proxyClass("wishes", "wished"), proxyClass("closed", "wished"))
	kept(t, testkit.Command{Name: "manager", Path: program, Log: s.managerLog, Args: []string{"manager", "--kubeconfig=" + h.managerAccount(), "--metrics-address="}})
	kept(t, h.proxyCommand("edge-1", h.proxyAccount("edge-1"), t.TempDir()))
	s.mallory = h.client(config(t, h.account("mallory", v1alpha1.AgentServiceAccount)))

	s.web, s.own = loadBalancer("quiet", "web", s.alpha), loadBalancer("mallory", "own", s.alpha)
	h.create(targets("quiet", s.alpha), targets("mallory", s.alpha), s.web, s.own)
	s.webAt, s.ownAt = h.served(s.web), h.served(s.own)
	unharmed := s.watched()
	for _, test := range []struct {
		name string
		run  func(*testing.T, *siege)
	}{
		{"targets", testHostileTargets},
		{"wishes", testHostileWishes},
		{"rights", testHostileRights},
		{"metadata", testHostileMetadata},
		{"words", testHostileWords},
		{"sizes", testHostileSizes},
		{"a TargetGroup that changes ten times a second", testRestlessTargets},
	} {
		t.Run(test.name, func(t *testing.T) {
			on := *s.hub
			on.t = t
			test.run(t, &siege{hub: &on, mallory: s.mallory, managerLog: s.managerLog, alpha: s.alpha, beta: s.beta, web: s.web, own: s.own, webAt: s.webAt, ownAt: s.ownAt, private: s.private, wished: s.wished})
		})
	}
	unharmed()
	// The manager never wrote what the API server refuses.
	said, err := os.ReadFile(s.managerLog)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "is invalid") || strings.Contains(line, "panic") {
			t.Errorf("the manager says %s", line)
		}
	}
}

func proxyClass(name string, pools ...string) *v1alpha1.LoadBalancerClass {
	return &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}, AddressPools: pools}}
}

// watched connects to what is served, of both tenants, until the function that it returns is called: no connection may fail.
func (s *siege) watched() (unharmed func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	for _, at := range []netip.AddrPort{s.webAt, s.ownAt} {
		all.Go(func() {
			tries := 0
			for pace := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; tries++ {
				if err := answers(ctx, at); err != nil && ctx.Err() == nil {
					s.t.Errorf("a connection to %s failed: %v", at, err)
				}
				<-pace.C
			}
			s.t.Logf("%d connections to %s", tries, at)
		})
	}
	return func() {
		s.t.Helper()
		cancel()
		all.Wait()
	}
}

// startTwins are targets of one port at two addresses.
func startTwins(t *testing.T) (alpha, beta netip.AddrPort) {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddrPort(a.Addr().String())
		b, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", at.Port()))
		if err != nil {
			a.Close()
			continue
		}
		say(t, a, "alpha")
		say(t, b, "beta.")
		return at, netip.MustParseAddrPort(b.Addr().String())
	}
	t.Fatal("no port is free at two addresses")
	return alpha, beta
}

// say has a server say five letters to whatever connects, and close.
func say(t *testing.T, l net.Listener, word string) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(word))
			c.Close()
		}
	}()
}

// conditionOf is one of a LoadBalancer, for its present generation.
func (s *siege) conditionOf(ctx context.Context, l *clusterv1.LoadBalancer, kind string) (*metav1.Condition, error) {
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
		return nil, err
	}
	c := meta.FindStatusCondition(l.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration != l.Generation {
		return nil, fmt.Errorf("nothing is said of its %s yet: %+v", kind, l.Status.Conditions)
	}
	return c, nil
}

// refused waits until a LoadBalancer's condition says no, with a reason, and holds its message to some words.
func (s *siege) refused(l *clusterv1.LoadBalancer, kind, reason string, says ...string) {
	s.t.Helper()
	s.eventually(l.Namespace+"/"+l.Name+" to be refused", func(ctx context.Context) error {
		c, err := s.conditionOf(ctx, l, kind)
		if err != nil {
			return err
		}
		if no := c.Status == metav1.ConditionFalse; no == (kind == clusterv1.ConditionDegraded) || c.Reason != reason {
			return fmt.Errorf("%s is %s/%s: %s", kind, c.Status, c.Reason, c.Message)
		}
		for _, x := range says {
			if !strings.Contains(c.Message, x) {
				return fmt.Errorf("%s doesn't say %q: %s", kind, x, c.Message)
			}
		}
		for _, name := range []string{"quiet", "web"} {
			if strings.Contains(c.Message, name) {
				return fmt.Errorf("it names another tenant's object: %s", c.Message)
			}
		}
		return nil
	})
}

// holds says which addresses a LoadBalancer has in the ledger.
func (s *siege) holds(ctx context.Context, namespace, name string) ([]string, error) {
	all := &v1alpha1.AddressList{}
	if err := s.api.List(ctx, all); err != nil {
		return nil, err
	}
	var out []string
	for _, a := range all.Items {
		for _, h := range a.Spec.Holders {
			if h.Namespace == namespace && h.Name == name {
				out = append(out, a.Spec.Address)
			}
		}
	}
	return out, nil
}

// word is what a client hears there.
func word(ctx context.Context, at netip.AddrPort) (string, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	b := make([]byte, 5)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// unserved waits until nothing is heard at an address.
func (s *siege) unserved(at netip.AddrPort) {
	s.t.Helper()
	s.eventually(at.String()+" to be served no more", func(ctx context.Context) error {
		if heard, err := word(ctx, at); err == nil {
			return fmt.Errorf("a client hears %q", heard)
		}
		return nil
	})
}

// silent waits until clients of a LoadBalancer that has an address are turned away there.
func (s *siege) silent(l *clusterv1.LoadBalancer) {
	s.t.Helper()
	s.eventually(l.Name+" to turn clients away", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		if len(l.Status.Addresses) == 0 {
			return errors.New("it has no address yet")
		}
		at, err := netip.ParseAddr(l.Status.Addresses[0].Value)
		if err != nil {
			return err
		}
		if heard, err := word(ctx, netip.AddrPortFrom(at, uint16(l.Spec.Ports[0].Port))); err == nil {
			s.t.Fatalf("%s: a client was connected to a target that is not allowed, and heard %q", l.Name, heard)
		}
		if c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionProgrammed); c == nil || c.Reason == clusterv1.ReasonWaitingForProxies || c.Reason == clusterv1.ReasonPending {
			return fmt.Errorf("proxies have not applied it: %+v", c)
		}
		return nil
	})
}
