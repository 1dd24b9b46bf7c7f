package api_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// hostileValues are for every field of every kind: wrong types, and what JSON
// admits and Go's decoders may not. A field that holds a duration or a time in the
// full object gets what an API server's formats admit as well.
func hostileValues(good any) []any {
	out := []any{
		nil, true, map[string]any{}, []any{}, []any{"x"},
		int64(0), int64(-1), int64(math.MaxInt32) + 1, int64(math.MinInt32) - 1, int64(math.MaxInt64), 1e19, 1e30, -1e30, 1.5, 2.0,
		"", "bogus", "5", strings.Repeat("x", 5000),
	}
	text, ok := good.(string)
	if !ok {
		return out
	}
	if _, err := time.ParseDuration(text); err == nil {
		out = append(out, " ", "1d", "0", "-1s", "+5m", ".5s", "5.s", "5m ", "1h1", "9999999999h", "9223372036854775808ns", "1µs", "1\u03bcs", "1.5h", "1E3s")
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		out = append(out, "2026-01-02", "2026-01-02T03:04:05", "2026-01-02t03:04:05z", "2026-01-02T03:04:05x1Z", "2026-01-02T03:04:05,1Z", "2026-01-02T24:00:00Z",
			"2026-01-02T03:04:60Z", "2026-02-30T03:04:05Z", "2026-01-02T03:04:05+99:99", "2026-01-02T03:04:05.1234567890123Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59",
			"2026-01-02T03:04:05Z", "2026-01-02 03:04:05Z")
	}
	return out
}

// Whatever the API server takes in whatever field, Go decodes: an object that
// doesn't decode fails the whole list of every Go client that asks for its kind.
func testHostileValues(t *testing.T, h *hub) {
	var tried, taken atomic.Int64
	for _, u := range fullObjects(t) {
		t.Run(u.GetKind()+" "+u.GetName(), func(t *testing.T) {
			namespace := h.namespace(t)
			created := h.createWithStatus(t, namespace, u)
			r := h.resource(t, u, namespace)
			all, ctx := errgroup.WithContext(t.Context())
			all.SetLimit(8)
			good := leaves(u.Object)
			for _, path := range slices.Sorted(maps.Keys(containers(u.Object))) {
				for _, value := range hostileValues(good[path]) {
					all.Go(func() error {
						tried.Add(1)
						got, err := tryWrite(ctx, r, created, u, path, value)
						if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
							return nil
						} else if err != nil {
							return fmt.Errorf("%s = %.60v: %w", path, value, err)
						}
						taken.Add(1)
						if _, err := decode(got); err != nil {
							t.Errorf("the API server takes %s = %#.60v, and Go can't decode it: %v", path, value, err)
						}
						return nil
					})
				}
			}
			if err := all.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("tried %d writes, %d were taken", tried.Load(), taken.Load())
}

// tryWrite writes u with another value at path, as a dry run: the object, or its status.
func tryWrite(ctx context.Context, r dynamic.ResourceInterface, created, u *unstructured.Unstructured, path string, value any) (*unstructured.Unstructured, error) {
	if strings.HasPrefix(path, ".status") {
		changed := &unstructured.Unstructured{Object: with(created.Object, path, value)}
		return r.UpdateStatus(ctx, changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	changed := &unstructured.Unstructured{Object: with(u.Object, path, value)}
	changed.SetName("another")
	return r.Create(ctx, changed, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// containers are the paths of all values below the root but metadata's and
// the type's: leaves, and what holds them.
func containers(tree map[string]any) map[string]bool {
	out := map[string]bool{}
	for path := range leaves(tree) {
		if path == ".apiVersion" || path == ".kind" {
			continue
		}
		for i, r := range path {
			if i > 0 && (r == '.' || r == '[') {
				out[path[:i]] = true
			}
		}
		out[path] = true
	}
	return out
}
