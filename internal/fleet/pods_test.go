package fleet

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/traffic"
)

func TestWhoMayAnswer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	allow := (&PodTracker{cluster: "prod-eu", pods: map[string]trackedPod{
		"default/web-1":  {labels: map[string]string{"app": "web"}},
		"default/web-2":  {labels: map[string]string{"app": "web"}, ends: now.Add(-time.Minute)},
		"default/web-3":  {labels: map[string]string{"app": "web"}, ends: now.Add(-time.Second)},
		"default/shop-1": {labels: map[string]string{"app": "shop"}},
	}}).Allow("web")
	for _, c := range []struct{ cluster, pod, want string }{
		{"prod-eu", "web-1", ""},
		{"prod-eu", "web-2", "after it was told to end"},
		{"prod-eu", "web-3", ""},
		{"prod-eu", "web-4", "which prod-eu does not have"},
		{"prod-eu", "shop-1", "for app web"},
		{"prod-us", "web-1", "of tenant prod-us"},
	} {
		got := allow(traffic.Identity{Cluster: c.cluster, Namespace: "default", Pod: c.pod}, now)
		if got == "" && c.want != "" || c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s of %s: %q, want %q", c.pod, c.cluster, got, c.want)
		}
	}
}

// Of a Service with policy Local a Pod that ends may answer for longer, and no longer than that.
func TestWhoMayAnswerWhileItEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	allow := (&PodTracker{cluster: "prod-eu", pods: map[string]trackedPod{
		"default/local-1": {labels: map[string]string{"app": "local"}, ends: now.Add(-5 * time.Second)},
		"default/local-2": {labels: map[string]string{"app": "local"}, ends: now.Add(-7 * time.Second)},
	}}).AllowEnding("local", 6*time.Second)
	if why := allow(traffic.Identity{Cluster: "prod-eu", Namespace: "default", Pod: "local-1"}, now); why != "" {
		t.Error(why)
	}
	if why := allow(traffic.Identity{Cluster: "prod-eu", Namespace: "default", Pod: "local-2"}, now); !strings.Contains(why, "7s after it was told to end") {
		t.Errorf("%q", why)
	}
}
