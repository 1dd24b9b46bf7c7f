// Package kubetest turns testkit's errors into failed tests and its Stop into cleanups.
package kubetest

import (
	"context"
	"os"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

// Start starts a control plane that lives as long as the test. Where the test fails,
// the ends of its logs are logged.
func Start(t testing.TB, o testkit.Options) *testkit.ControlPlane {
	t.Helper()
	began := time.Now()
	c, err := testkit.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("control plane %s ready after %s", c.Name(), time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Processes() {
				t.Logf("end of the log of %s:\n%s", p.Name(), p.LogTail())
			}
		}
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// StartNodes gives it nodes of these names.
func StartNodes(t testing.TB, c *testkit.ControlPlane, names ...string) {
	t.Helper()
	specs := []testkit.NodeSpec{}
	for _, n := range names {
		specs = append(specs, testkit.NodeSpec{Name: n})
	}
	if _, err := c.StartNodes(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
}

// StartProcess starts a command that is killed at the end of the test. Without a Log it
// gets one, which is logged where the test fails.
func StartProcess(t testing.TB, c testkit.Command) *testkit.Process {
	t.Helper()
	if c.Log == "" {
		f, err := os.CreateTemp(t.TempDir(), "*.log")
		if err != nil {
			t.Fatal(err)
		}
		c.Log = f.Name()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p, err := testkit.StartProcess(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", p.Name(), p.LogTail())
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Eventually polls until f returns nil, and fails the test if that takes longer than d.
func Eventually(t testing.TB, d time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := testkit.Poll(ctx, 10*time.Millisecond, what, f); err != nil {
		t.Fatal(err)
	}
}
