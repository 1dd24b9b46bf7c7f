package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A dead API server comes back by itself, but one that was stopped waits for its start.
func TestClusterKeepsItsAPIServer(t *testing.T) {
	c, err := startCluster(t.Context(), testkit.Options{Name: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	died := make(chan string, 10)
	c.keep(func(p *Program, _ error) { died <- p.Name })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ready := func() error {
		return testkit.Poll(ctx, 50*time.Millisecond, "the API server to answer", func(ctx context.Context) error {
			return c.API.Get(ctx, client.ObjectKey{Name: "default"}, &v1.Namespace{})
		})
	}
	kill := func() {
		t.Helper()
		if err := c.APIServer().Kill(); err != nil {
			t.Fatal(err)
		}
		if got := <-died; !strings.Contains(got, "apiserver") {
			t.Errorf("told of %q", got)
		}
	}
	kill()
	if err := ready(); err != nil {
		t.Fatal(err)
	}
	if err := c.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case what := <-died:
		t.Errorf("a stop that was asked for counts as the death of %s", what)
	case <-time.After(restartAfter + 300*time.Millisecond):
	}
	if c.APIServer().Running() {
		t.Error("it runs though it was stopped")
	}
	if err := c.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	kill()
}

// What takes the place of a lost cluster is another one, with nodes of the same names and nothing else; what dies there is kept running.
func TestALostClusterIsAnotherOne(t *testing.T) {
	c, err := startCluster(t.Context(), testkit.Options{Name: "prod-eu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if c.nodes, err = c.StartNodes(t.Context(), []testkit.NodeSpec{{Name: "node-1"}}); err != nil {
		t.Fatal(err)
	}
	died := make(chan string, 10)
	c.keep(func(p *Program, _ error) { died <- p.Name })
	identities := func() (cluster, node types.UID) {
		t.Helper()
		ns, o := &v1.Namespace{}, &v1.Node{}
		if err := errors.Join(c.API.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, ns), c.API.Get(t.Context(), client.ObjectKey{Name: "node-1"}, o)); err != nil {
			t.Fatal(err)
		}
		return ns.UID, o.UID
	}
	wasCluster, wasNode := identities()
	made := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"}}}
	if err := c.API.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	saved, err := c.Backup(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Lose(t.Context()); err != nil {
		t.Fatal(err)
	}
	if isCluster, isNode := identities(); isCluster == wasCluster || isNode == wasNode {
		t.Error("it is the same cluster, or has the same node")
	}
	restored := &v1.Service{}
	if err := c.API.Get(t.Context(), client.ObjectKeyFromObject(made), restored); !apierrors.IsNotFound(err) {
		t.Errorf("it has the Service of the lost one: %v", err)
	}
	if err := c.Apply(t.Context(), saved...); err != nil {
		t.Fatal(err)
	}
	if err := c.API.Get(t.Context(), client.ObjectKeyFromObject(made), restored); err != nil || restored.UID == made.UID || restored.Spec.Selector["app"] != "web" {
		t.Errorf("of its backup it has %v, %v", restored, err)
	}
	if len(died) > 0 {
		t.Errorf("its loss counts as the death of %s", <-died)
	}
	if err := c.nodes.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := <-died; !strings.Contains(got, "nodes") {
		t.Errorf("told of %q", got)
	}
}
