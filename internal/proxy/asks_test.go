package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// After an outage one watch after the other opens, each a doubt.
func TestDoubtsThatComeOneAfterTheOtherAreSettledSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(class())
		settle(time.Second)
		w.hub.leave()
		w.lost()
		settle(time.Hour)
		const doubts = 30
		n := 0
		w.hub.mu.Lock()
		w.hub.away = false
		w.hub.onUID = func() {
			if n++; n < doubts {
				w.proxy.inbox.Doubt() // Since this was asked.
			}
		}
		w.hub.mu.Unlock()
		settle(askUpTo + doubts*2*askFrom)
		if !w.proxy.inbox.Sure() {
			t.Errorf("after %d answers it is not sure yet", n)
		}
	})
}

// Not found is a hub's word on the Proxy only if it is about that.
func TestAHubLacksAProxyOnlyIfItSaysSo(t *testing.T) {
	lacking := func(kind, name string) any {
		e := apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: kind}, name)
		e.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		return e.ErrStatus
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		says  any
		lacks bool
	}{
		"the Proxy":             {lacking("proxies", "edge-1"), true},
		"another Proxy":         {lacking("proxies", "edge-2"), false},
		"another kind":          {lacking("hubs", "edge-1"), false},
		"nothing in particular": {metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404}, false},
		"not a Status":          {"404 page not found", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				var says any = corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{UID: "one"}}
				if strings.Contains(r.URL.Path, "/proxies/") {
					if _, text := c.says.(string); text {
						w.Header().Set("Content-Type", "text/plain")
					}
					w.WriteHeader(http.StatusNotFound)
					says = c.says
				}
				if text, ok := says.(string); ok {
					io.WriteString(w, text)
					return
				}
				if err := json.NewEncoder(w).Encode(says); err != nil {
					t.Error(err)
				}
			}))
			defer s.Close()
			hub, err := NewClient(&rest.Config{Host: s.URL}, scheme, "edge-1", func(string, error) {})
			if err != nil {
				t.Fatal(err)
			}
			a, err := ask(context.Background(), hub, "edge-1")
			if a.HubUID != "one" || (err == nil) != c.lacks {
				t.Errorf("answer %+v, %v", a, err)
			}
		})
	}
}
