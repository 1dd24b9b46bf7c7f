package hollow

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestAddressesAreReusedLate(t *testing.T) {
	a := newAddresses(7)
	first, _ := a.take("")
	a.free(first)
	second, ok := a.take("")
	if !ok || first == second || !a.owns(second) {
		t.Errorf("%s, then %s", first, second)
	}
	if again, _ := a.take(first.String()); again != first {
		t.Errorf("wanted %s, got %s", first, again)
	}
	if other, _ := a.take("192.0.2.1"); !a.owns(other) {
		t.Errorf("an address of elsewhere: %s", other)
	}
	for range podsPerNode - 3 {
		if _, ok := a.take(""); !ok {
			t.Fatal("no address left")
		}
	}
	if ip, ok := a.take(""); ok {
		t.Errorf("one too many: %s", ip)
	}
}

// dialPod connects to a Pod the way a node port does.
func dialPod(t *testing.T, p *pod) (net.Conn, bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if !p.offer(server.(*net.TCPConn), 80) {
		_ = server.Close()
		return nil, false
	}
	return client, true
}

func newTestPod(t *testing.T) *pod {
	obj := &v1.Pod{}
	obj.Namespace, obj.Name = "default", "web"
	p := startPod("test", obj, []netip.Addr{netip.MustParseAddr("10.244.1.1")}, &podNode{name: "node-1"})
	t.Cleanup(p.kill)
	return p
}

func TestStreamAnswersAgainAndAgain(t *testing.T) {
	c, _ := dialPod(t, newTestPod(t))
	if _, err := io.WriteString(c, "GET /stream?every=1ms HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(res.Body)
	for range 3 {
		var a Answer
		if err := lines.Decode(&a); err != nil || a.Pod != "web" || a.Client != c.LocalAddr().String() {
			t.Fatal(a, err)
		}
	}
}

func TestHeldConnectionKeepsATerminatingPodUntilItsGraceIsOver(t *testing.T) {
	p := newTestPod(t)
	c, _ := dialPod(t, p)
	if _, err := io.WriteString(c, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\nhello"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if _, err := http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	p.terminate(3*time.Second, func() { close(done) })
	if _, ok := dialPod(t, p); !ok {
		t.Error("refuses at once")
	}
	began := time.Now()
	rest, err := io.ReadAll(r)
	if string(rest) != "hello" {
		t.Errorf("%q, %v", rest, err)
	}
	if d := time.Since(began); d < 2*time.Second {
		t.Errorf("cut after %s", d)
	}
	<-done
	if !p.ended() {
		t.Error("not ended")
	}
	if _, ok := dialPod(t, p); ok {
		t.Error("takes a connection after its end")
	}
}

func TestPodWithoutConnectionsEndsAfterItSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPod(t)
		began := time.Now()
		done := make(chan struct{})
		p.terminate(30*time.Second, func() { close(done) })
		<-done
		if d := time.Since(began); d < settle || d > settle+time.Second {
			t.Errorf("after %s", d)
		}
	})
}

func TestPodListensWhileItsPreStopHookSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obj := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 6}}}}}}}
		p := startPod("c", obj, []netip.Addr{netip.MustParseAddr("10.244.1.2")}, &podNode{name: "node-1"})
		t.Cleanup(p.kill)
		began := time.Now()
		done := make(chan struct{})
		p.terminate(30*time.Second, func() { close(done) })
		<-done
		if d := time.Since(began); d < 6*time.Second+settle || d > 7*time.Second+settle {
			t.Errorf("after %s", d)
		}
	})
}
