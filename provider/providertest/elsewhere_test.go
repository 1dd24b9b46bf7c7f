package providertest_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/webhook"
)

// The end point over HTTP of a provider that is elsewhere, held to the suite: docs/providers.md says how to run this. Nothing of it runs where the
// environment doesn't say where that is.
func TestUnlessSkippedAProviderElsewhere(t *testing.T) {
	url := os.Getenv("FAIRLEAD_PROVIDER_URL")
	if url == "" {
		t.Skip("NOT RUN: no provider elsewhere was tested, for FAIRLEAD_PROVIDER_URL isn't set")
	}
	at := place{members: strings.Split(os.Getenv("FAIRLEAD_PROVIDER_MEMBERS"), ",")}
	port, err := strconv.ParseUint(os.Getenv("FAIRLEAD_PROVIDER_PORT"), 10, 16)
	if err != nil || port == 0 || len(at.members) < 3 {
		t.Fatalf("FAIRLEAD_PROVIDER_MEMBERS: %q, FAIRLEAD_PROVIDER_PORT: %q: set three addresses with commas between them, and a port at which they take connections", at.members, os.Getenv("FAIRLEAD_PROVIDER_PORT"))
	}
	at.port = int32(port)
	if at.first, err = netip.ParseAddrPort(os.Getenv("FAIRLEAD_PROVIDER_ENDPOINT")); err != nil {
		t.Fatalf("FAIRLEAD_PROVIDER_ENDPOINT: %v: set the first of some thirty addresses that it may serve at, with a port, such as 192.0.2.10:7443", err)
	}
	settle := time.Second
	if text := os.Getenv("FAIRLEAD_PROVIDER_SETTLE"); text != "" {
		if settle, err = time.ParseDuration(text); err != nil {
			t.Fatalf("FAIRLEAD_PROVIDER_SETTLE: %v: set how long new connections may come after a member is called draining, such as 5s", err)
		}
	}
	hub, controller := newHub(t)
	s := suite(hub, controller, elsewhere(t, url, os.Getenv("FAIRLEAD_PROVIDER_TOKEN"), settle), at)
	s.Patience = 2*time.Minute + 4*settle
	s.Run(t)
}

// elsewhere are options of a controller of FooLoadBalancers, whose calls somebody answers at a URL.
func elsewhere(t *testing.T, url, token string, settle time.Duration) provider.Options {
	t.Helper()
	o := webhook.Options{URL: url}
	if token != "" {
		o.Token = func() (string, error) { return token, nil }
	}
	c, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return provider.Options{Kind: &api.FooLoadBalancer{}, Provider: c, Settle: settle, Timeout: 5 * time.Second}
}

// overHTTP are the stories in which it matters what the provider itself answers.
var overHTTP = []string{
	"the provider chooses where nobody says anything", "what is adopted by ID is kept", "what is deleted is gone outside", "what vanished outside is made again",
	"a result that is lost makes no second one", "a member added by hand is removed with an event", "what can't be changed holds up no member",
}

// The suite is as good over HTTP: foo-provider passes there what may differ.
func TestFooProviderOverHTTP(t *testing.T) {
	hub, controller := newHub(t)
	answers := webhook.Handler(&foo.Provider{Cloud: newCloud(t, hub)}, func() provider.Object { return &api.FooLoadBalancer{} })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		answers.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	told := suite(hub, controller, elsewhere(t, s.URL, "key", foo.Settle), here(t, hub))
	told.Only = overHTTP
	told.Run(t)
}
