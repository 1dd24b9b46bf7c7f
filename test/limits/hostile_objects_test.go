package limits_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A wish for what is somebody else's, or nobody's to grant, gets nothing; nor does it tell whose that is.
func testHostileWishes(t *testing.T, s *siege) {
	theirs := loadBalancer("quiet", "wished", s.alpha)
	theirs.Spec.ClassName, theirs.Spec.Addresses = "wishes", []string{s.address(200).String()}
	s.create(theirs)
	s.served(theirs)
	granted, accepted := clusterv1.ConditionAddressGranted, clusterv1.ConditionAccepted
	cases := []struct {
		name              string
		class             string
		pools, addresses  []string
		families          []clusterv1.IPFamily
		condition, reason string
		says              []string
	}{
		{name: "another-tenants", class: "wishes", addresses: []string{s.address(200).String()}, condition: granted, reason: clusterv1.ReasonAddressInUse, says: []string{s.address(200).String()}},
		{name: "not-requestable", class: class, addresses: []string{s.address(150).String()}, condition: granted, reason: clusterv1.ReasonAddressNotRequestable, says: []string{pool}},
		{name: "web-address", class: class, addresses: []string{s.webAt.Addr().String()}, condition: granted, reason: clusterv1.ReasonAddressNotRequestable},
		{name: "no-pools", class: "wishes", addresses: []string{"8.8.8.8"}, condition: granted, reason: clusterv1.ReasonAddressNotInPool, says: []string{"8.8.8.8"}},
		{name: "the-hubs", class: "wishes", addresses: []string{s.address(1).String()}, condition: granted, reason: clusterv1.ReasonAddressNotInPool},
		{name: "anything", class: "wishes", addresses: []string{"0.0.0.0"}, condition: granted, reason: clusterv1.ReasonAddressNotInPool},
		{name: "multicast", class: "wishes", addresses: []string{"224.0.0.1"}, condition: granted, reason: clusterv1.ReasonAddressNotInPool},
		{name: "other-family", class: "wishes", addresses: []string{"2001:db8::1"}, condition: granted, reason: clusterv1.ReasonAddressNotInPool},
		{name: "other-class", class: class, addresses: []string{s.address(201).String()}, condition: granted, reason: clusterv1.ReasonAddressNotInPool},
		{name: "gold-pool", class: "wishes", pools: []string{"private"}, condition: granted, reason: clusterv1.ReasonPoolNotAllowed, says: []string{"private"}},
		{name: "gold-address", class: "wishes", pools: []string{"private"}, addresses: []string{s.address(210).String()}, condition: granted, reason: clusterv1.ReasonPoolNotAllowed},
		{name: "no-pool", class: "wishes", pools: []string{"nowhere"}, condition: granted, reason: clusterv1.ReasonPoolNotFound, says: []string{"nowhere"}},
		{name: "no-ipv6", class: "wishes", families: []clusterv1.IPFamily{clusterv1.IPv6}, condition: granted, reason: clusterv1.ReasonFamilyNotInPool},
		{name: "closed-class", class: "closed", condition: accepted, reason: clusterv1.ReasonClassNotAllowed, says: []string{`"closed"`, "ask the hub's operator"}},
		{name: "unknown-class", class: "unknown", condition: accepted, reason: clusterv1.ReasonClassNotAllowed, says: []string{`"unknown"`}}, // as if it were there
	}
	var made []*clusterv1.LoadBalancer
	for _, c := range cases {
		l := loadBalancer("mallory", c.name, s.alpha)
		l.Spec.ClassName, l.Spec.AddressPools, l.Spec.Addresses, l.Spec.IPFamilies = c.class, c.pools, c.addresses, c.families
		if err := s.mallory.Create(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		made = append(made, l)
	}
	for i, c := range cases {
		s.refused(made[i], c.condition, c.reason, c.says...)
		if held, err := s.holds(t.Context(), "mallory", c.name); err != nil || len(held) > 0 {
			t.Errorf("%s: it holds %q, %v", c.name, held, err)
		}
	}
	// Written as no address of a pool ever is: not even stored.
	for _, a := range []string{"::ffff:" + s.address(201).String(), s.address(201).String() + "/32", "fe80::1%lo", "localhost", " " + s.address(201).String(), "127.1"} {
		l := loadBalancer("mallory", "odd", s.alpha)
		l.Spec.ClassName, l.Spec.Addresses = "wishes", []string{a}
		if err := s.mallory.Create(t.Context(), l); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.addresses") || !strings.Contains(err.Error(), "such as 192.0.2.7") {
			t.Errorf("wish for %q: %v", a, err)
		}
	}
	for _, l := range append(made, theirs) {
		s.drop(l)
	}
}

// An agent's identity may write what its Tenant has, and nothing else of the hub.
func testHostileRights(t *testing.T, s *siege) {
	ctx, in := t.Context(), func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	tries := map[string]error{}
	for _, o := range []client.Object{
		loadBalancer("quiet", "trojan", s.alpha), targets("quiet", s.alpha),
		&v1alpha1.Address{ObjectMeta: in("", "192.0.2.1"), Spec: v1alpha1.AddressSpec{Address: "192.0.2.1", Pool: pool, Phase: v1alpha1.AddressGranted}},
		&v1alpha1.AddressPool{ObjectMeta: in("", "mine"), Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"192.0.2.0/24"}}},
		proxyClass("mine", "wished"), tenant("mine", nil),
		&v1alpha1.Proxy{ObjectMeta: in("", "mine"), Spec: v1alpha1.ProxySpec{Pool: "edge"}},
		&v1alpha1.ProxyReport{ObjectMeta: in("mallory", "edge-1"), Boot: "b"},
		&coordinationv1.Lease{ObjectMeta: in(v1alpha1.SystemNamespace, "edge-1")},
		&corev1.Namespace{ObjectMeta: in("", "mine")}, &corev1.Secret{ObjectMeta: in("mallory", "mine")}, &corev1.Service{ObjectMeta: in("mallory", "mine")},
		&corev1.ServiceAccount{ObjectMeta: in("mallory", "mine")}, &corev1.ResourceQuota{ObjectMeta: in("mallory", "mine")},
		&rbacv1.RoleBinding{ObjectMeta: in("mallory", "mine"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}},
	} {
		tries[fmt.Sprintf("creating %T in %q", o, o.GetNamespace())] = s.mallory.Create(ctx, o)
	}
	for _, o := range []client.Object{
		s.web, &v1alpha1.TargetGroup{ObjectMeta: in("quiet", "nodes-0")}, &v1alpha1.Address{ObjectMeta: in("", s.webAt.Addr().String())}, s.wished,
		&v1alpha1.LoadBalancerClass{ObjectMeta: in("", class)}, &v1alpha1.Tenant{ObjectMeta: in("", "mallory")}, &v1alpha1.Tenant{ObjectMeta: in("", "quiet")},
		&v1alpha1.Proxy{ObjectMeta: in("", "edge-1")}, &coordinationv1.Lease{ObjectMeta: in(v1alpha1.SystemNamespace, "edge-1")},
		&coordinationv1.Lease{ObjectMeta: in(v1alpha1.SystemNamespace, "fairlead-manager")}, &coordinationv1.Lease{ObjectMeta: in("quiet", v1alpha1.AgentLease)},
		&corev1.Namespace{ObjectMeta: in("", "mallory")}, &corev1.ResourceQuota{ObjectMeta: in("mallory", "fairlead")},
		&rbacv1.RoleBinding{ObjectMeta: in("mallory", v1alpha1.AgentServiceAccount)}, &corev1.ServiceAccount{ObjectMeta: in("mallory", v1alpha1.AgentServiceAccount)},
	} {
		what := fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
		body := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"gold"},"finalizers":["example.com/mine"]}}`))
		tries["patching "+what] = s.mallory.Patch(ctx, o.DeepCopyObject().(client.Object), body)
		tries["deleting "+what] = s.mallory.Delete(ctx, o.DeepCopyObject().(client.Object))
	}
	for _, o := range []client.Object{s.own, &v1alpha1.TargetGroup{ObjectMeta: in("mallory", "nodes-0")}, &v1alpha1.Tenant{ObjectMeta: in("", "mallory")}} {
		body := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[],"addresses":[{"type":"IP","value":"192.0.2.1"}],"members":"1/1"}}`))
		tries[fmt.Sprintf("status of its own %T", o)] = s.mallory.Status().Patch(ctx, o.DeepCopyObject().(client.Object), body)
	}
	for _, list := range []client.ObjectList{&clusterv1.LoadBalancerList{}, &v1alpha1.TargetGroupList{}, &v1alpha1.AddressList{}, &v1alpha1.AddressPoolList{}, &v1alpha1.TenantList{}, &v1alpha1.ProxyList{}, &v1alpha1.ProxyReportList{}, &corev1.SecretList{}, &coordinationv1.LeaseList{}} {
		tries[fmt.Sprintf("listing %T of everybody", list)] = s.mallory.List(ctx, list)
		tries[fmt.Sprintf("listing %T of quiet", list)] = s.mallory.List(ctx, list, client.InNamespace("quiet"))
	}
	for what, err := range tries {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it to be forbidden", what, err)
		}
	}
	t.Logf("%d things are forbidden", len(tries))
	// A status that comes with a new object is not taken, and one in an update changes nothing.
	l := loadBalancer("mallory", "boaster", s.alpha)
	l.Status.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeIP, Value: "192.0.2.1"}}
	if err := s.mallory.Create(ctx, l); err != nil {
		t.Fatal(err)
	}
	s.served(l)
	l.Status.Addresses[0].Value = "192.0.2.1"
	if err := s.mallory.Update(ctx, l); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	if s.served(l); l.Status.Addresses[0].Value == "192.0.2.1" {
		t.Error("its status is what the tenant wrote")
	}
	s.drop(l)
}

// Owners, finalizers and labels on a tenant's objects reach nobody else's, and hold no address.
func testHostileMetadata(t *testing.T, s *siege) {
	ctx := t.Context()
	yes := true
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(s.web), s.web); err != nil {
		t.Fatal(err)
	}
	before := s.web.DeepCopy()
	owned := loadBalancer("mallory", "owned", s.alpha)
	owned.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "LoadBalancer", Name: s.web.Name, UID: s.web.UID, BlockOwnerDeletion: &yes},
		{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AddressPool", Name: s.wished.Name, UID: s.wished.UID, BlockOwnerDeletion: &yes},
	}
	stuck, bare, marked := loadBalancer("mallory", "stuck", s.alpha), loadBalancer("mallory", "bare", s.alpha), loadBalancer("mallory", "marked", s.alpha)
	stuck.Finalizers = append(stuck.Finalizers, "example.com/never")
	bare.Finalizers = nil
	marked.Labels = map[string]string{v1alpha1.LabelTenant: "quiet", v1alpha1.LabelFor: "web", "app.kubernetes.io/managed-by": "fairlead-manager"}
	marked.Annotations = map[string]string{v1alpha1.AnnotationOrigin: "Service/default/web", v1alpha1.AnnotationHeldUntil: "9999-12-31T23:59:59Z", clusterv1.DisabledAnnotation: ""}
	for _, l := range []*clusterv1.LoadBalancer{owned, stuck, bare, marked} {
		if err := s.mallory.Create(ctx, l); err != nil {
			t.Fatal(err)
		}
		s.served(l)
	}
	at := map[string]netip.Addr{}
	for _, l := range []*clusterv1.LoadBalancer{owned, stuck, bare, marked} {
		at[l.Name] = netip.MustParseAddr(l.Status.Addresses[0].Value)
		if l == bare { // not even our finalizer is there: it goes at once, and what it held is kept for it
			s.eventually("it to go before the manager has put its finalizer back", func(ctx context.Context) error {
				if err := s.mallory.Patch(ctx, l, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
					return err
				}
				return s.mallory.Delete(ctx, l, client.Preconditions{ResourceVersion: &l.ResourceVersion})
			})
		} else if err := s.mallory.Delete(ctx, l); err != nil {
			t.Fatal(err)
		}
		s.eventually("the address of "+l.Name+" to be free, or kept", func(ctx context.Context) error {
			a := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: at[l.Name].String()}}
			err := s.api.Get(ctx, client.ObjectKeyFromObject(a), a)
			if err == nil && (l != bare || a.Annotations[v1alpha1.AnnotationHeldUntil] == "") {
				return fmt.Errorf("it is %s, of %v", a.Spec.Phase, a.Spec.Holders)
			}
			return client.IgnoreNotFound(err)
		})
		if l == bare { // and is served on, as long as it is granted: a list that lacks it may be incomplete
			s.eventually("a client of what is kept to be answered", func(ctx context.Context) error {
				heard, err := word(ctx, netip.AddrPortFrom(at[l.Name], 8080))
				if err == nil && heard != "alpha" {
					err = fmt.Errorf("it hears %q", heard)
				}
				return err
			})
			continue
		}
		s.unserved(netip.AddrPortFrom(at[l.Name], 8080))
	}
	again := loadBalancer("mallory", "bare", s.alpha)
	s.create(again)
	if is := s.served(again); is.Addr() != at["bare"] {
		t.Errorf("it comes back at %s, and had %s", is, at["bare"])
	}
	s.drop(again)
	s.unserved(netip.AddrPortFrom(at["bare"], 8080))
	s.eventually("what a finalizer of its tenant's keeps to say that it is served no more", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(stuck), stuck); err != nil {
			return err
		}
		c := meta.FindStatusCondition(stuck.Status.Conditions, clusterv1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != clusterv1.ReasonDeleting || len(stuck.Status.Addresses) > 0 {
			return fmt.Errorf("it says %+v", stuck.Status)
		}
		return nil
	})
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(stuck), stuck); err != nil || !slices.Equal(stuck.Finalizers, []string{"example.com/never"}) {
		t.Errorf("of its finalizers %q are left, %v", stuck.Finalizers, err)
	}
	if err := s.mallory.Patch(ctx, stuck, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(s.web), s.web); err != nil || s.web.UID != before.UID || s.web.DeletionTimestamp != nil || s.web.Generation != before.Generation {
		t.Errorf("another tenant's LoadBalancer was touched: %+v, %v", s.web.ObjectMeta, err)
	}
	for _, o := range []client.Object{s.wished, &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: class}}} {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || o.GetDeletionTimestamp() != nil {
			t.Errorf("%T %s: %v", o, o.GetName(), err)
		}
	}
}

// Whatever words a tenant writes, Unicode and as long as they may be, what is well is served, and its status can be written.
func testHostileWords(t *testing.T, s *siege) {
	ctx := t.Context()
	const odd = "\u202e\x1b[31mузел\n☃\u0000\u200b"
	words := func(n int) string { return string([]rune(strings.Repeat(odd, n))[:n]) }
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "mallory", Name: v1alpha1.AgentLease, Annotations: map[string]string{
		v1alpha1.AnnotationClusterUID: words(1000), v1alpha1.AnnotationVersion: words(1000), v1alpha1.AnnotationRefused: words(1000) + " now", v1alpha1.AnnotationEpoch: "-9223372036854775809",
	}}}
	if err := s.mallory.Create(ctx, lease); err != nil {
		t.Fatal(err)
	}
	mine := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "mallory"}}
	connected := func(says string) {
		t.Helper()
		s.eventually("the Tenant's status to be written", func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(mine), mine); err != nil {
				return err
			}
			c := meta.FindStatusCondition(mine.Status.Conditions, v1alpha1.ConditionAgentConnected)
			if c == nil || c.Reason == v1alpha1.ReasonAgentNeverSeen && says != c.Reason || !strings.Contains(c.Reason+" "+c.Message, says) {
				return fmt.Errorf("%+v", c)
			}
			if strings.ContainsAny(c.Message, "\x1b\n\u202e") {
				t.Errorf("what the agent says reaches people as it is: %q", c.Message)
			}
			return nil
		})
	}
	say := func(key, value string) {
		t.Helper()
		lease.Annotations[key] = value
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		if err := s.mallory.Update(ctx, lease); err != nil {
			t.Fatal(err)
		}
	}
	connected(v1alpha1.ReasonAgentNeverSeen)
	say(v1alpha1.AnnotationClusterUID, "11111111-2222-3333-4444-555555555555")
	say(v1alpha1.AnnotationEpoch, "9223372036854775807")
	connected(v1alpha1.ReasonAgentConnected)
	if mine.Status.AgentVersion != "" || mine.Status.AgentEpoch > mine.Status.HubEpoch {
		t.Errorf("it is believed that its version is %q, its epoch %d", mine.Status.AgentVersion, mine.Status.AgentEpoch)
	}

	l := loadBalancer("mallory", strings.Repeat("a.b-", 15)+"abc", s.alpha) // 63
	g := targets("mallory", s.alpha)
	g.Name = strings.Repeat("long-name.", 25) + "abc" // 253
	g.Labels = map[string]string{v1alpha1.LabelTargets: "odd"}
	l.Spec.Selector = &metav1.LabelSelector{MatchLabels: g.Labels}
	l.Spec.Ports[0].Name = words(63)
	g.Spec.Targets[0].Name, g.Spec.Targets[0].UID, g.Spec.Targets[0].Zone = words(253), words(64), words(63)
	g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: words(252), UID: words(63), Addresses: []string{words(253), "10.0.0.1"}})
	g.Annotations = map[string]string{"example.com/odd": strings.Repeat(odd, 10000)}
	for _, o := range []client.Object{g, l} {
		if err := s.mallory.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	s.served(l)
	s.eventually("the TargetGroup's status to be written", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "spec.targets[1].addresses") {
			return fmt.Errorf("%+v", g.Status)
		}
		return nil
	})
	s.drop(l)
}

// As large as the schema lets it be, and it is judged as any other.
func testHostileSizes(t *testing.T, s *siege) {
	ctx := t.Context()
	l := loadBalancer("mallory", "wordy", s.alpha)
	l.Spec.Selector = &metav1.LabelSelector{}
	for i := range 64 {
		e := metav1.LabelSelectorRequirement{Key: fmt.Sprintf("example.com/%063d", i), Operator: metav1.LabelSelectorOpIn}
		for v := range 64 {
			e.Values = append(e.Values, fmt.Sprintf("%063d", v))
		}
		l.Spec.Selector.MatchExpressions = append(l.Spec.Selector.MatchExpressions, e)
	}
	many := loadBalancer("mallory", "many", s.alpha)
	many.Spec.Ports = nil
	for i := range 100 {
		many.Spec.Ports = append(many.Spec.Ports, clusterv1.Port{Name: fmt.Sprintf("p%d", i), Protocol: clusterv1.ProtocolTCP, Port: int32(20000 + i), TargetPort: int32(s.alpha.Port())})
	}
	for i := range 256 {
		many.Spec.SourceRanges = append(many.Spec.SourceRanges, fmt.Sprintf("127.0.%d.0/24", i))
	}
	many.Spec.SourceRanges[255] = "127.0.0.0/8"
	mixed := loadBalancer("mallory", "mixed", s.alpha)
	mixed.Spec.SourceRanges = []string{"::ffff:0.0.0.0/95"}
	for _, o := range []*clusterv1.LoadBalancer{l, many} {
		if err := s.mallory.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.mallory.Create(ctx, mixed); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.sourceRanges") {
		t.Errorf("a range of both families: %v", err)
	}
	s.refused(l, clusterv1.ConditionDegraded, clusterv1.ReasonNoTargets)
	s.served(many)
	s.eventually("all its ports to be served", func(ctx context.Context) error {
		at, err := netip.ParseAddr(many.Status.Addresses[0].Value)
		if err != nil {
			return err
		}
		for _, p := range many.Spec.Ports {
			if heard, err := word(ctx, netip.AddrPortFrom(at, uint16(p.Port))); heard != "alpha" {
				return errors.Join(fmt.Errorf("port %d says %q", p.Port, heard), err)
			}
		}
		return nil
	})
	s.drop(l)
	s.drop(many)
}
