package app_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Against a real API server whose etcd goes back to an older copy, with its revisions as they were then, and raised
// above all that the proxy has seen.
func TestProxyServesOnWhenTheHubIsRestored(t *testing.T) {
	h := startHub(t)
	h.create(t, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"127.0.0.0/8"}}})
	state := t.TempDir()
	stop := h.startProxy(t, "edge-1", app.ProxyOptions{StateDir: state})
	old := netip.AddrPortFrom(h.address(101), 8080)
	h.loadBalancer(t, "old", old)
	serves := func(n int32) {
		t.Helper()
		kubetest.Eventually(t, soon, "the proxy to serve", func(ctx context.Context) error {
			px, err := h.proxy(ctx, "edge-1")
			if err == nil && (px.Status.Frontends != n || px.Status.Through == (v1alpha1.Through{})) {
				err = fmt.Errorf("status %+v", px.Status)
			}
			return err
		})
	}
	serves(1)
	for round, bump := range []int{0, 5000} {
		copied, err := h.SaveCopy()
		if err != nil {
			t.Fatal(err)
		}
		name, late := fmt.Sprintf("late-%d", round), netip.AddrPortFrom(h.address(byte(102+round)), 8080)
		h.loadBalancer(t, name, late)
		serves(int32(round + 2))
		held, err := net.Dial("tcp", late.String())
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		failed := watchOver(t, old, late)

		if err := h.Restore(t.Context(), copied, bump); err != nil {
			t.Fatal(err)
		}
		if round == 1 { // The next process finds it so.
			stop()
			held.Close()
			if err := failed(); err == nil {
				t.Fatal("nobody noticed that the proxy was stopped")
			}
			stop = h.startProxy(t, "edge-1", app.ProxyOptions{StateDir: state})
			kubetest.Eventually(t, soon, "the last-good file to be served", func(context.Context) error { return errors.Join(answers(old), answers(late)) })
			failed = watchOver(t, old, late)
		}
		kubetest.Eventually(t, soon, "the proxy to say what it serves against the ledger", func(ctx context.Context) error {
			px, err := h.proxy(ctx, "edge-1")
			if err != nil {
				return err
			}
			if c := meta.FindStatusCondition(px.Status.Conditions, v1alpha1.ConditionHubChanged); c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonHubRestored || px.Status.Through != (v1alpha1.Through{}) {
				return fmt.Errorf("status %+v", px.Status)
			}
			r, err := h.report(ctx, "edge-1")
			if err == nil && (len(r.Serves) != 1 || r.Serves[0].Address != late.Addr().String() || r.Serves[0].LoadBalancer != name) {
				err = fmt.Errorf("serves %+v", r.Serves)
			}
			return err
		})

		// What manager and agent would do.
		h.loadBalancer(t, name, late)
		tenant := &v1alpha1.Tenant{}
		if err := h.client.Get(t.Context(), client.ObjectKey{Name: namespace}, tenant); err != nil {
			t.Fatal(err)
		}
		epoch := int64(round + 1)
		tenant.Status.HubEpoch, tenant.Status.AgentEpoch = epoch, epoch
		if err := h.client.Status().Update(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		kubetest.Eventually(t, soon, "the proxy to follow the hub again", func(ctx context.Context) error {
			px, err := h.proxy(ctx, "edge-1")
			if err == nil && (!meta.IsStatusConditionFalse(px.Status.Conditions, v1alpha1.ConditionHubChanged) || px.Status.Epoch != epoch) {
				err = fmt.Errorf("status %+v", px.Status)
			}
			return err
		})
		serves(int32(round + 2))
		if err := failed(); err != nil {
			t.Errorf("traffic: %v", err)
		}
		if round == 0 {
			if err := say(held); err != nil {
				t.Errorf("the connection that was open: %v", err)
			}
		}
	}
}

// watchOver makes one new connection after the other; the returned function ends that, and returns the first that failed.
func watchOver(t *testing.T, all ...netip.AddrPort) (failed func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	var first atomic.Pointer[error]
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, at := range all {
				if err := answers(at); err != nil {
					err = fmt.Errorf("%s: %w", at, err)
					first.CompareAndSwap(nil, &err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() error {
		cancel()
		<-done
		if err := first.Load(); err != nil {
			return *err
		}
		return nil
	}
}
