package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/webhook"
)

// over returns a client of a handler.
func over(t *testing.T, h http.Handler) *webhook.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := webhook.New(webhook.Options{URL: s.URL + "/at", Token: func() (string, error) { return "key", nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A provider over HTTP does what it does in the process.
func TestFooOverHTTP(t *testing.T) {
	cloud := balancer.New(balancer.Options{Addresses: netip.MustParsePrefix("127.0.0.5/32")})
	t.Cleanup(cloud.Close)
	h := http.StripPrefix("/at", webhook.Handler(&foo.Provider{Cloud: cloud}, func() provider.Object { return &api.FooLoadBalancer{} }))
	c := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("a call has the authorization %q", r.Header.Get("Authorization"))
		}
		h.ServeHTTP(w, r)
	}))
	ref := provider.Ref{Owner: "owner", Object: &api.FooLoadBalancer{Spec: api.FooLoadBalancerSpec{MaxConnections: 7}}}
	if _, err := c.Describe(t.Context(), ref); !errors.Is(err, provider.ErrNotFound) {
		t.Fatalf("before it is made, Describe returns %v", err)
	}
	made, err := c.Ensure(t.Context(), provider.Wanted{Ref: ref, Name: "default/x", Ports: []clusterv1.Port{{Port: 17443, TargetPort: 9}}})
	if err != nil || made.ID == "" || made.Endpoint != (clusterv1.Endpoint{Host: "127.0.0.5", Port: 17443}) {
		t.Fatalf("Ensure returns %+v, %v", made, err)
	}
	if i, err := cloud.Get(made.ID, ""); err != nil || i.Owner != "owner" || i.Spec.MaxConnections != 7 {
		t.Errorf("the cloud has %+v, %v", i, err)
	}
	ref.ID = made.ID
	if err := c.SetMembers(t.Context(), ref, []provider.Member{{Name: "a", Address: "127.0.0.1", Weight: 1, Draining: true}}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Describe(t.Context(), ref)
	if err != nil || len(s.Members) != 1 || s.Members[0].Health != provider.MemberDraining || s.Members[0].Connections == nil {
		t.Errorf("Describe returns %+v, %v", s, err)
	}
	if err := c.Delete(t.Context(), ref); err != nil {
		t.Errorf("Delete returns %v", err)
	}
	if err := c.Delete(t.Context(), ref); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("the second Delete returns %v", err)
	}
}

// What an answer means: only a provider's own word says that something is absent, or that repeating won't help.
func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		status             int
		body               string
		notFound, terminal bool
		message            string
	}{
		"absent":                 {status: 404, body: `{"error":{"kind":"NotFound","message":"no lb-1"}}`, notFound: true, message: "no lb-1"},
		"refused":                {status: 422, body: `{"error":{"kind":"Refused","message":"quota"}}`, terminal: true, message: "quota"},
		"failed":                 {status: 500, body: `{"error":{"kind":"Failed","message":"later"}}`, message: "later"},
		"a proxy's 404":          {status: 404, body: `<html>not here</html>`, message: "404"},
		"JSON of somebody else":  {status: 404, body: `{"message":"no route"}`, message: "404"},
		"a redirect":             {status: 302, body: ``, message: "302"},
		"no state":               {status: 200, body: `{}`, message: "no state"},
		"an error that succeeds": {status: 200, body: `{"error":{"kind":"NotFound","message":"no"}}`, message: "200"},
		"no JSON":                {status: 200, body: `ok`, message: "reading the answer"},
		"half of it":             {status: 200, body: `{"state":{"id":"a"`, message: "reading the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			c := over(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body)) // the client says what it got
			}))
			_, err := c.Describe(t.Context(), provider.Ref{ID: "lb-1", Owner: "owner"})
			if err == nil || errors.Is(err, provider.ErrNotFound) != tc.notFound || provider.IsTerminal(err) != tc.terminal || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for _, bad := range []string{"", "appliance.example", "ftp://appliance.example", "http://", "http://%"} {
		if _, err := webhook.New(webhook.Options{URL: bad}); err == nil {
			t.Errorf("the URL %q is taken", bad)
		}
	}
}

// What somebody sends who is no client of ours is refused.
func TestRequests(t *testing.T) {
	h := webhook.Handler(&foo.Provider{Cloud: balancer.New(balancer.Options{})}, func() provider.Object { return &api.FooLoadBalancer{} })
	for name, tc := range map[string]struct {
		path, body string
		status     int
	}{
		"no JSON":      {"/describe", `hello`, 422},
		"no owner":     {"/describe", `{"id":"a"}`, 422},
		"no wanted":    {"/ensure", `{"owner":"o"}`, 422},
		"a wrong spec": {"/ensure", `{"owner":"o","spec":{"maxConnections":"many"}}`, 422},
		"absent":       {"/delete", `{"owner":"o","spec":{}}`, 404},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.body)))
			if w.Code != tc.status || !strings.Contains(w.Body.String(), `"error"`) {
				t.Errorf("the answer is %d %s", w.Code, w.Body)
			}
		})
	}
}
