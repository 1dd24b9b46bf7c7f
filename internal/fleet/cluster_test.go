package fleet

import (
	"context"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
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
