package endpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	rules "fairlead.dev/fairlead/internal/endpoint"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// service named api, of a type, with TCP ports that are named by their number.
func service(kind corev1.ServiceType, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "api"}, Spec: corev1.ServiceSpec{Type: kind}}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Port: p, Protocol: corev1.ProtocolTCP})
	}
	return s
}

// ingress has a Service reached at names and addresses.
func ingress(s *corev1.Service, hosts ...string) *corev1.Service {
	s.Status.LoadBalancer.Ingress = nil
	for _, h := range hosts {
		name, address, _ := strings.Cut(h, "=")
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: name, IP: address})
	}
	return s
}

func byService(port *intstr.IntOrString) *clusterv1.ClusterEndpoint {
	e := endpointAt("mine", key.Name, "")
	e.Spec.Port, e.Spec.ServiceRef = 0, &clusterv1.ServiceReference{Name: "api", Port: port}
	return e
}

func TestWhereAServiceIsReached(t *testing.T) {
	const balanced, inside = corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP
	with := func(s *corev1.Service, change func(*corev1.Service)) *corev1.Service { change(s); return s }
	named, numbered := intstr.FromString("p443"), intstr.FromInt32(6443)
	none, quoted := intstr.FromInt32(80), intstr.FromString("443")
	var many []int32
	for p := range int32(1000) {
		many = append(many, p+1)
	}
	for name, c := range map[string]struct {
		service *corev1.Service
		port    *intstr.IntOrString
		has     string
		// want is where it is, or the reason why it is nowhere, and what the message says of it.
		want string
		says []string
	}{
		"a name":                        {ingress(service(balanced, 6443), "lb.example.com"), nil, "", "lb.example.com:6443", []string{"the load balancer of Service api"}},
		"an address":                    {ingress(service(balanced, 6443), "=192.0.2.7"), nil, "", "192.0.2.7:6443", nil},
		"an address of IPv6":            {ingress(service(balanced, 6443), "=fd00::7"), nil, "", "[fd00::7]:6443", nil},
		"a name before its address":     {ingress(service(balanced, 6443), "lb.example.com=192.0.2.7"), nil, "", "lb.example.com:6443", nil},
		"the first of several":          {ingress(service(balanced, 6443), "=192.0.2.7", "=192.0.2.8"), nil, "", "192.0.2.7:6443", nil},
		"the one that the Cluster has":  {ingress(service(balanced, 6443), "=192.0.2.7", "lb.example.com=192.0.2.8"), nil, "192.0.2.8:6443", "192.0.2.8:6443", nil},
		"its host, at another port":     {ingress(service(balanced, 6443), "=192.0.2.7", "=192.0.2.8"), nil, "192.0.2.8:443", "192.0.2.7:6443", nil},
		"nothing yet":                   {service(balanced, 6443), nil, "", clusterv1.ReasonServicePending, []string{"Service api", "status.loadBalancer.ingress", "see its events"}},
		"nothing yet, of a class":       {with(service(balanced, 6443), func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("fairlead.dev/lb") }), nil, "", clusterv1.ReasonServicePending, []string{"loadBalancerClass fairlead.dev/lb"}},
		"an ingress with nothing in it": {ingress(service(balanced, 6443), ""), nil, "", clusterv1.ReasonServicePending, nil},
		"being deleted":                 {with(ingress(service(balanced, 6443), "=192.0.2.7"), func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }), nil, "", clusterv1.ReasonServiceNotFound, []string{"being deleted"}},
		"a cluster IP":                  {with(service(inside, 6443), func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.7" }), nil, "", "10.96.0.7:6443", []string{"nobody reaches from outside"}},
		"a cluster IP, without a type":  {with(service("", 6443), func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.7" }), nil, "", "10.96.0.7:6443", nil},
		"the second of its cluster IPs": {with(service(inside, 6443), func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.7", []string{"10.96.0.7", "fd00::7"}
		}), nil, "[fd00::7]:6443", "[fd00::7]:6443", nil},
		"no cluster IP yet":               {service(inside, 6443), nil, "", clusterv1.ReasonServicePending, []string{"no cluster IP"}},
		"headless":                        {with(service(inside, 6443), func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), nil, "", clusterv1.ReasonServiceNotSupported, []string{"headless", "type LoadBalancer"}},
		"of nodes":                        {with(service(corev1.ServiceTypeNodePort, 6443), func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.7" }), nil, "", clusterv1.ReasonServiceNotSupported, []string{"NodePort", "type LoadBalancer", "spec.host"}},
		"another name":                    {with(service(corev1.ServiceTypeExternalName, 6443), func(s *corev1.Service) { s.Spec.ExternalName = "else.example.com" }), nil, "", clusterv1.ReasonServiceNotSupported, []string{"set that as spec.host", "else.example.com"}},
		"a port by name":                  {ingress(service(balanced, 6443, 443), "=192.0.2.7"), &named, "", "192.0.2.7:443", nil},
		"a port by number":                {ingress(service(balanced, 443, 6443), "=192.0.2.7"), &numbered, "", "192.0.2.7:6443", nil},
		"a port that isn't there":         {ingress(service(balanced, 443, 6443), "=192.0.2.7"), &none, "", clusterv1.ReasonServicePortNotFound, []string{"no TCP port 80", "p443 443, p6443 6443"}},
		"a number in quotes":              {ingress(service(balanced, 443), "=192.0.2.7"), &quoted, "", clusterv1.ReasonServicePortNotFound, []string{`no TCP port named "443"`, "without quotes"}},
		"several ports, and none is said": {ingress(service(balanced, 443, 6443), "=192.0.2.7"), nil, "", clusterv1.ReasonServicePortNotFound, []string{"several TCP ports", "spec.serviceRef.port", "p443 443, p6443 6443"}},
		"a thousand ports":                {ingress(service(balanced, many...), "=192.0.2.7"), nil, "", clusterv1.ReasonServicePortNotFound, []string{"p8 8, …"}},
		"a port said before an address":   {service(balanced, 443, 6443), nil, "", clusterv1.ReasonServicePortNotFound, nil},
		"a lone port beside one of UDP":   {with(ingress(service(balanced, 443, 53), "=192.0.2.7"), func(s *corev1.Service) { s.Spec.Ports[1].Protocol = corev1.ProtocolUDP }), nil, "", "192.0.2.7:443", nil},
		"one of UDP alone":                {with(ingress(service(balanced, 443), "=192.0.2.7"), func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }), nil, "", clusterv1.ReasonServicePortNotFound, []string{"no TCP port"}},
	} {
		t.Run(name, func(t *testing.T) {
			var has rules.HostPort
			if c.has != "" {
				var err error
				if has, err = rules.Parse(c.has); err != nil {
					t.Fatal(err)
				}
			}
			got := whereIs(c.service, byService(c.port).Spec.ServiceRef, has)
			is, message := got.String(), got.note
			if got.lacks != nil {
				is, message = got.lacks.Reason, got.lacks.Message
				if !strings.Contains(message, ": ") || len(message) > 400 || !got.Empty() {
					t.Errorf("%q says no fix, or too much; it is at %s", message, got)
				}
			}
			if is != c.want {
				t.Errorf("it is %s, not %s: %s", is, c.want, message)
			}
			for _, says := range c.says {
				if !strings.Contains(message, says) {
					t.Errorf("%q doesn't say %q", message, says)
				}
			}
		})
	}
}

// said is the condition Surfaced of the ClusterEndpoint that refers to a Service, and where its status says that that is reached.
func said(t *testing.T, here client.Client) (metav1.Condition, string) {
	t.Helper()
	e := &clusterv1.ClusterEndpoint{}
	if err := here.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: "mine"}, e); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionSurfaced)
	if c == nil {
		t.Fatalf("it says nothing: %+v", e.Status)
	}
	return *c, rules.HostPort{Host: e.Status.Host, Port: e.Status.Port}.String()
}

// Each change of the Service is told, and what the Cluster has in use stays.
func TestAServiceIsFollowed(t *testing.T) {
	may := true
	s, front := service(corev1.ServiceTypeLoadBalancer, 6443), balancer(frontName, served)
	r, here := stage(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*corev1.Service); ok && !may {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, k.Name, errors.New("no"))
		}
		return c.Get(ctx, k, o, opts...)
	}}, clusterWith("", 0, names), byService(nil), front)
	step := func(what, cluster, surfaced, at string, says ...string) {
		t.Helper()
		again := rest(t, r).RequeueAfter
		c, reached := said(t, here)
		if got := shows(t, here)[0]; got != "Cluster "+cluster || string(c.Status)+"/"+c.Reason != surfaced || reached != at {
			t.Errorf("%s: %s, %s/%s %q, reached at %s", what, got, c.Status, c.Reason, c.Message, reached)
		}
		for _, text := range says {
			if !strings.Contains(c.Message, text) {
				t.Errorf("%s: %q doesn't say %q", what, c.Message, text)
			}
		}
		if again <= 0 || again > followAgain {
			t.Errorf("%s: it is looked at again after %s", what, again)
		}
	}
	moves := func(hosts ...string) {
		t.Helper()
		if err := here.Status().Update(t.Context(), ingress(s, hosts...)); err != nil {
			t.Fatal(err)
		}
	}
	step("no Service", "-", "False/ServiceNotFound", ":0", "Service api")
	if err := here.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	step("no address", "-", "False/ServicePending", ":0", "Service api")
	moves("=192.0.2.20")
	step("an address", "192.0.2.20:6443", "True/Surfaced", "192.0.2.20:6443", "Service api")
	moves("=192.0.2.21")
	step("another one, before it is in use", "192.0.2.21:6443", "True/Surfaced", "192.0.2.21:6443")
	if err := here.Create(t.Context(), kubeconfig()); err != nil {
		t.Fatal(err)
	}
	moves("=192.0.2.22", "=192.0.2.21")
	step("a second one, in use", "192.0.2.21:6443", "True/Surfaced", "192.0.2.21:6443")
	moves("=192.0.2.22")
	step("another one, in use", "192.0.2.21:6443", "False/EndpointConflict", "192.0.2.22:6443", "192.0.2.21:6443", "192.0.2.22:6443")
	may = false
	step("no right", "192.0.2.21:6443", "False/Forbidden", ":0", "config/rbac/cluster-api", "keeps 192.0.2.21:6443")
	may = true
	if err := here.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	step("deleted", "192.0.2.21:6443", "False/ServiceNotFound", ":0", "keeps 192.0.2.21:6443")
	changed(t, here, clusterWith("", 0), key, wipe)
	step("deleted, and the Cluster wiped", "192.0.2.21:6443", "False/ServiceNotFound", ":0", "keeps 192.0.2.21:6443")
	changed(t, here, &clusterv1.ClusterEndpoint{}, client.ObjectKey{Namespace: key.Namespace, Name: "mine"}, func(e *clusterv1.ClusterEndpoint) {
		e.Spec.Host, e.Spec.Port, e.Spec.ServiceRef = "192.0.2.21", 6443, nil
	})
	if again := rest(t, r).RequeueAfter; again != 0 {
		t.Errorf("without a Service it is looked at again after %s", again)
	}
	if c, reached := said(t, here); c.Status != metav1.ConditionTrue || reached != ":0" {
		t.Errorf("%+v, reached at %s", c, reached)
	}
}

// Where the ClusterEndpoint that refers to a Service has the Cluster's name, the one that mirrors the Cluster meanwhile has another.
func TestWhatMirrorsBesideAService(t *testing.T) {
	e := byService(nil)
	e.Name = key.Name
	r, here := stage(t, interceptor.Funcs{}, clusterWith("api.example.com", 6443), e)
	rest(t, r)
	wantShown(t, here, "Cluster api.example.com:6443", "ClusterEndpoint -", "ClusterEndpoint api.example.com:6443 from Cluster of Cluster")
	if err := here.Create(t.Context(), ingress(service(corev1.ServiceTypeLoadBalancer, 6443), "API.example.com")); err != nil {
		t.Fatal(err)
	}
	rest(t, r)
	wantShown(t, here, "Cluster api.example.com:6443", "ClusterEndpoint -")
}

// One that is generated refers to no Service, whatever somebody makes of it.
func TestWhatMirrorsRefersToNoService(t *testing.T) {
	s := ingress(service(corev1.ServiceTypeLoadBalancer, 6443), "=192.0.2.20")
	r, here := stage(t, interceptor.Funcs{}, clusterWith("api.example.com", 6443), s)
	rest(t, r)
	refer := func(e *clusterv1.ClusterEndpoint) {
		e.Spec.Host, e.Spec.Port, e.Spec.ServiceRef = "", 0, byService(nil).Spec.ServiceRef
	}
	changed(t, here, &clusterv1.ClusterEndpoint{}, key, refer)
	rest(t, r)
	wantShown(t, here, "Cluster api.example.com:6443", "ClusterEndpoint api.example.com:6443 from Cluster of Cluster")
	e := &clusterv1.ClusterEndpoint{}
	if err := here.Get(t.Context(), key, e); err != nil || e.Spec.ServiceRef != nil || e.Status.Host != "" {
		t.Errorf("%+v, %+v: %v", e.Spec, e.Status, err)
	}
	changed(t, here, &clusterv1.ClusterEndpoint{}, key, refer)
	changed(t, here, clusterWith("", 0), key, wipe)
	rest(t, r)
	wantShown(t, here, "Cluster -")
}

// What lacks something is looked at again soon, and ever more seldom; another lack begins anew.
func TestWhenAServiceIsLookedAtAgain(t *testing.T) {
	s := service(corev1.ServiceTypeLoadBalancer, 6443)
	r, here := stage(t, interceptor.Funcs{}, clusterWith("", 0), byService(nil))
	step := func(what string, lacked, least, most time.Duration) {
		t.Helper()
		if at, ok := r.reached[key]["mine"]; ok {
			at.since = at.since.Add(-lacked)
			r.reached[key]["mine"] = at
		}
		if again := rest(t, r).RequeueAfter; again < least || again > most {
			t.Errorf("%s: it is looked at again after %s", what, again)
		}
	}
	step("at first", 0, soonest, soonest)
	step("for a minute", time.Minute, 15*time.Second, 16*time.Second)
	step("for an hour", time.Hour, latest, latest)
	if err := here.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	step("it lacks another thing", 0, soonest, soonest)
	if err := here.Status().Update(t.Context(), ingress(s, "=192.0.2.20")); err != nil {
		t.Fatal(err)
	}
	step("it lacks nothing", 0, followAgain, followAgain)
	if err := here.Delete(t.Context(), clusterWith("", 0)); err != nil {
		t.Fatal(err)
	}
	step("there is no Cluster", 0, 0, 0)
	if len(r.reached) > 0 {
		t.Errorf("it remembers %+v", r.reached)
	}
}

// An event of a Service wakes the Clusters whose ClusterEndpoints refer to it, and no others.
func TestServicesWake(t *testing.T) {
	elsewhere := byService(nil)
	elsewhere.Namespace = "other"
	other := byService(nil)
	other.Name, other.Spec.Cluster, other.Spec.ServiceRef.Name = "other", "other", "other"
	r, _ := stage(t, interceptor.Funcs{}, byService(nil), elsewhere, other, endpointAt("host", "third", "api.example.com"))
	s := service(corev1.ServiceTypeLoadBalancer, 6443)
	if got := r.OfService(t.Context(), s); len(got) != 1 || got[0] != (reconcile.Request{NamespacedName: key}) {
		t.Errorf("%+v", got)
	}
	annotated := s.DeepCopy()
	annotated.Annotations = map[string]string{"a": "b"}
	if Reached.Update(event.UpdateEvent{ObjectOld: s, ObjectNew: annotated}) {
		t.Error("an annotation wakes")
	}
	if !Reached.Update(event.UpdateEvent{ObjectOld: s, ObjectNew: ingress(s.DeepCopy(), "=192.0.2.20")}) {
		t.Error("an address doesn't wake")
	}
}
