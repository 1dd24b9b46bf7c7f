package hollow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// world is one node's proxy and the Pods that it can reach, without an API server.
type world struct {
	t     *testing.T
	proxy *nodeProxy
	pods  map[string]*pod
}

func (w *world) at(ip string) *pod { return w.pods[ip] }

func newWorld(t *testing.T, address string) *world {
	w := &world{t: t, pods: map[string]*pod{}}
	// Never asked: there is no informer that runs.
	none := kubernetes.NewForConfigOrDie(&rest.Config{})
	n := &node{
		spec:   NodeSpec{Name: "here", Address: netip.MustParseAddr(address)},
		lister: informers.NewSharedInformerFactory(none, 0).Core().V1().Nodes().Lister(),
	}
	w.proxy = newNodeProxies(n, w, slog.New(slog.DiscardHandler))[0]
	t.Cleanup(w.proxy.closeAll)
	w.proxy.setNode(true, nil)
	w.sync()
	return w
}

func (w *world) sync() {
	w.t.Helper()
	if !w.proxy.sync() {
		w.t.Fatal("a port was not opened")
	}
}

func (w *world) run(name, ip string) {
	obj := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	obj.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 8080}, {ContainerPort: 8053, Protocol: v1.ProtocolUDP}}}}
	w.pods[ip] = startPod("test", obj, []netip.Addr{netip.MustParseAddr(ip)}, &podNode{name: "here"})
	w.t.Cleanup(w.pods[ip].kill)
}

func (w *world) url(port int32) string {
	return "http://" + netip.AddrPortFrom(w.proxy.address, uint16(port)).String() + "/"
}

// ask returns the Pod that answers, or "refused", or "reset".
func (w *world) ask(port int32) string {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(w.url(port))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return "reset"
	case err != nil:
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	var a Answer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		w.t.Fatal(err)
	}
	return a.Pod
}

func (w *world) want(port int32, pod string) {
	w.t.Helper()
	if got := w.ask(port); got != pod {
		w.t.Errorf("port %d: %s, want %s", port, got, pod)
	}
}

func (w *world) status(port int32) int {
	w.t.Helper()
	res, err := http.Get(w.url(port) + "healthz")
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func newService(name string, nodePort int32) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Type = v1.ServiceTypeLoadBalancer
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.1", []string{"10.96.0.1"}
	s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol}
	s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyCluster
	s.Spec.Ports = []v1.ServicePort{{Name: "http", Protocol: v1.ProtocolTCP, Port: 80, NodePort: nodePort}}
	return s
}

// where: "IP node" each; "IP node terminating" for one that ends but serves.
func newSlice(service string, where ...string) *discovery.EndpointSlice {
	s := &discovery.EndpointSlice{AddressType: discovery.AddressTypeIPv4}
	s.Namespace, s.Name = "default", service+"-1"
	s.Labels = map[string]string{discovery.LabelServiceName: service}
	s.Ports = []discovery.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(v1.ProtocolTCP), Port: ptr.To[int32](8080)}}
	for _, w := range where {
		var ip, node, state string
		_, _ = fmt.Sscan(w, &ip, &node, &state) // state may be missing
		s.Endpoints = append(s.Endpoints, discovery.Endpoint{
			Addresses: []string{ip}, NodeName: &node,
			Conditions: discovery.EndpointConditions{
				Ready: ptr.To(state == ""), Serving: ptr.To(true), Terminating: ptr.To(state == "terminating"),
			},
		})
	}
	return s
}

func TestNodePortFollowsServiceAndEndpoints(t *testing.T) {
	w := newWorld(t, "127.30.0.1")
	w.run("a", "10.244.1.1")
	w.run("b", "10.244.1.2")

	svc := newService("web", 30001)
	w.proxy.onService(nil, svc)
	w.sync()
	w.want(30001, "refused") // no endpoint yet

	w.proxy.onSlice(newSlice("web", "10.244.1.1 here"), false)
	w.sync()
	w.want(30001, "a")

	w.proxy.onSlice(newSlice("web", "10.244.1.2 there"), false)
	w.sync()
	w.want(30001, "b")

	moved := newService("web", 30002)
	w.proxy.onService(svc, moved)
	w.sync()
	w.want(30001, "refused")
	w.want(30002, "b")

	w.proxy.onService(moved, nil)
	w.sync()
	w.want(30002, "refused")
}

func TestPolicyLocalUsesLocalEndpointsOnly(t *testing.T) {
	w := newWorld(t, "127.30.0.2")
	w.run("a", "10.244.1.1")
	w.run("b", "10.244.1.2")
	svc := newService("web", 30001)
	svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	svc.Spec.HealthCheckNodePort = 30100
	w.proxy.onService(nil, svc)
	w.proxy.onSlice(newSlice("web", "10.244.1.2 there"), false)
	w.sync()
	w.want(30001, "refused")
	if s := w.status(30100); s != http.StatusServiceUnavailable {
		t.Errorf("without a local endpoint: %d", s)
	}

	w.proxy.onSlice(newSlice("web", "10.244.1.1 here", "10.244.1.2 there"), false)
	w.sync()
	for range 10 {
		w.want(30001, "a")
	}
	if s := w.status(30100); s != http.StatusOK {
		t.Errorf("with a local endpoint: %d", s)
	}

	// Only a terminating one is left: it still serves, the check tells clients to leave.
	w.proxy.onSlice(newSlice("web", "10.244.1.1 here terminating", "10.244.1.2 there"), false)
	w.sync()
	w.want(30001, "a")
	if s := w.status(30100); s != http.StatusServiceUnavailable {
		t.Errorf("with a terminating local endpoint: %d", s)
	}
}

func TestDeadNodeClosesAllItsPortsAndReopensThem(t *testing.T) {
	w := newWorld(t, "127.30.0.3")
	w.run("a", "10.244.1.1")
	svc := newService("web", 30001)
	svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	svc.Spec.HealthCheckNodePort = 30100
	w.proxy.onService(nil, svc)
	w.proxy.onSlice(newSlice("web", "10.244.1.1 here"), false)
	w.sync()
	w.want(30001, "a")
	w.proxy.setNode(false, nil)
	w.sync()
	for _, port := range []int32{30001, 30100, 10256} {
		w.want(port, "refused")
	}
	w.proxy.setNode(true, nil)
	w.sync()
	w.want(30001, "a")
	if s := w.status(30100); s != http.StatusOK {
		t.Errorf("health check node port: %d", s)
	}
}

func TestPortMovesToAnotherServiceInOneStep(t *testing.T) {
	w := newWorld(t, "127.30.0.4")
	w.run("a", "10.244.1.1")
	w.run("b", "10.244.1.2")
	first, second := newService("first", 30001), newService("second", 30001)
	w.proxy.onService(nil, first)
	w.proxy.onSlice(newSlice("first", "10.244.1.1 here"), false)
	w.sync()
	w.want(30001, "a")
	w.proxy.onSlice(newSlice("second", "10.244.1.2 here"), false)
	w.proxy.onService(nil, second)
	w.proxy.onService(first, nil)
	w.sync()
	w.want(30001, "b")
}

func TestPortThatIsTakenOpensOnceItIsFree(t *testing.T) {
	w := newWorld(t, "127.30.0.5")
	w.run("a", "10.244.1.1")
	taken, err := net.Listen("tcp", "127.30.0.5:30001")
	if err != nil {
		t.Fatal(err)
	}
	w.proxy.onService(nil, newService("web", 30001))
	w.proxy.onSlice(newSlice("web", "10.244.1.1 here"), false)
	if w.proxy.sync() {
		t.Error("sync says that all is well")
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	w.sync()
	w.want(30001, "a")
}

func TestPodDoesNotListenOnOtherPorts(t *testing.T) {
	w := newWorld(t, "127.30.0.6")
	w.run("a", "10.244.1.1")
	slice := newSlice("web", "10.244.1.1 here")
	slice.Ports[0].Port = ptr.To[int32](9999)
	w.proxy.onService(nil, newService("web", 30001))
	w.proxy.onSlice(slice, false)
	w.sync()
	w.want(30001, "reset")
}

func TestClientAffinity(t *testing.T) {
	w := newWorld(t, "127.30.0.7")
	w.run("a", "10.244.1.1")
	w.run("b", "10.244.1.2")
	svc := newService("web", 30001)
	svc.Spec.SessionAffinity = v1.ServiceAffinityClientIP
	svc.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](600)}}
	w.proxy.onService(nil, svc)
	w.proxy.onSlice(newSlice("web", "10.244.1.1 here", "10.244.1.2 here"), false)
	w.sync()
	first := w.ask(30001)
	for range 20 {
		w.want(30001, first)
	}
}
