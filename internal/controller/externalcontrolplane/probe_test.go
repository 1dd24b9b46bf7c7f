package externalcontrolplane

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"k8s.io/client-go/rest"
)

// server answers /sub/version and the namespace as a test has it, and says how it is reached.
func server(t testing.TB, version, namespace http.HandlerFunc) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/sub/version", version)
	mux.HandleFunc("/sub/api/v1/namespaces/kube-system", namespace)
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL + "/sub", BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, text)
	}
}

func code(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
}

func TestWhatAProbeFinds(t *testing.T) {
	version, namespace := answer(`{"gitVersion": "v1.37.0"}`), answer(`{"metadata": {"uid": "its-uid"}}`)
	elsewhere := server(t, version, namespace)
	refused := func() *rest.Config {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return &rest.Config{Host: "https://" + l.Addr().String()}
	}
	clear := httptest.NewServer(version)
	t.Cleanup(clear.Close)
	untrusted := server(t, version, namespace)
	untrusted.CAData = nil
	misnamed := server(t, version, namespace)
	misnamed.ServerName = "other.example"
	unusable := server(t, version, namespace)
	unusable.CAData = []byte("no certificate")
	anonymous := server(t, version, namespace)
	anonymous.BearerToken = ""
	for name, c := range map[string]struct {
		at     *rest.Config
		reason string
		says   string
	}{
		"well":              {server(t, version, namespace), controlplanev1.ReasonAvailable, ""},
		"another version":   {server(t, answer(`{"gitVersion": "main"}`), namespace), controlplanev1.ReasonAvailable, ""},
		"unknown user":      {anonymous, controlplanev1.ReasonUnauthorized, "renew its credentials"},
		"no right":          {server(t, version, code(http.StatusForbidden)), controlplanev1.ReasonUnauthorized, "get /sub/api/v1/namespaces/kube-system"},
		"its store is away": {server(t, version, code(http.StatusInternalServerError)), controlplanev1.ReasonNotReady, "answers 500"},
		"not ready":         {server(t, code(http.StatusServiceUnavailable), namespace), controlplanev1.ReasonNotReady, "answers 503 to /sub/version"},
		"nothing of ours":   {server(t, code(http.StatusNotFound), namespace), controlplanev1.ReasonNotReady, "answers 404"},
		"a redirect": {server(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.Host+"/version", http.StatusFound)
		}, namespace), controlplanev1.ReasonNotReady, "answers 302"},
		"a page":                      {server(t, answer("<html>"), namespace), controlplanev1.ReasonNotReady, "as an API server does"},
		"a word":                      {server(t, version, answer(`"x"`)), controlplanev1.ReasonNotReady, "as an API server does"},
		"a nameless one":              {server(t, version, answer(`{}`)), controlplanev1.ReasonNotReady, "as an API server does"},
		"a name that no status holds": {server(t, version, answer(`{"metadata": {"uid": "`+strings.Repeat("x", mostUID+1)+`"}}`)), controlplanev1.ReasonNotReady, "as an API server does"},
		"without an end":              {server(t, answer(`{"gitVersion": "`+strings.Repeat("x", 2*mostRead)+`"}`), namespace), controlplanev1.ReasonNotReady, "as an API server does"},
		"nobody listens":              {refused(), controlplanev1.ReasonUnreachable, "refuses connections"},
		"another authority":           {untrusted, controlplanev1.ReasonUnreachable, "kubeconfig's authority"},
		"another name":                {misnamed, controlplanev1.ReasonUnreachable, "other names"},
		"no authority":                {unusable, controlplanev1.ReasonKubeconfigInvalid, "don't parse"},
		"in clear":                    {&rest.Config{Host: strings.Replace(clear.URL, "http:", "https:", 1)}, controlplanev1.ReasonUnreachable, "doesn't speak TLS"},
		"it breaks off":               {server(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, namespace), controlplanev1.ReasonUnreachable, "breaks off"},
		"it breaks off late": {server(t, version, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			fmt.Fprint(w, "{")
		}), controlplanev1.ReasonUnreachable, "breaks off"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t.Context(), c.at)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.says) || (got.Message == "") != got.available() {
				t.Errorf("found %+v", got)
			}
			if got.available() && got.ClusterUID != "its-uid" || (got.Version == "v1.37.0") != (name == "well") {
				t.Errorf("found %+v", got)
			}
			if again := ask(t.Context(), c.at); again != got {
				t.Errorf("the same is said otherwise: %+v, %+v", got, again)
			}
		})
	}
}

// One that takes connections and says nothing, or says it without an end, costs no more than its time.
func TestAProbeEnds(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frozen.Close() })
	trickle := server(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprint(w, " ")
			w.(http.Flusher).Flush()
		}
	}, code(http.StatusOK))
	for name, at := range map[string]*rest.Config{"frozen": {Host: "https://" + frozen.Addr().String()}, "without an end": trickle} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if got := ask(ctx, at); got.Reason != controlplanev1.ReasonUnreachable && got.Reason != controlplanev1.ReasonNotReady {
				t.Errorf("found %+v", got)
			}
		})
	}
}
