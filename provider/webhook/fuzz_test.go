package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/webhook"
)

// asked is a provider that has nothing, and looks at what it is asked.
type asked struct{ *testing.T }

func (a asked) of(ref provider.Ref) {
	if ref.Owner == "" || ref.Object == nil {
		a.Errorf("a call is about %+v", ref)
	}
}

func (a asked) Describe(_ context.Context, ref provider.Ref) (provider.State, error) {
	a.of(ref)
	return provider.State{}, provider.ErrNotFound
}

func (a asked) Ensure(_ context.Context, w provider.Wanted) (provider.State, error) {
	a.of(w.Ref)
	return provider.State{ID: "x"}, nil
}

func (a asked) SetMembers(_ context.Context, ref provider.Ref, _ []provider.Member) error {
	a.of(ref)
	return provider.Terminal("no")
}

func (a asked) Delete(_ context.Context, ref provider.Ref) error {
	a.of(ref)
	return nil
}

var calls = []string{"describe", "ensure", "members", "delete"}

// Whoever calls a provider, with whatever: the provider hears of nobody's object but an owner's, and the caller gets an answer.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		`{"owner":"o","spec":{"maxConnections":7},"wanted":{"name":"x","ports":[{"port":1}]},"members":[{"name":"a","address":"::1"}]}`,
		`{"owner":"o","id":"x"}`, `{"owner":""}`, `{"owner":"o","spec":7}`, `{"owner":"o","wanted":null}`, `{"owner":"o","spec":{"maxConnections":"7"}}`,
		`{"owner":"o","wanted":{"ref":{"owner":""}}}`, `null`, `[]`, ``, `{"owner":"o"} and more`,
	} {
		for n := range calls {
			f.Add(uint8(n), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, call uint8, text []byte) {
		h := webhook.Handler(asked{t}, func() provider.Object { return &api.FooLoadBalancer{} })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+calls[int(call)%len(calls)], bytes.NewReader(text)))
		said := struct {
			Error *struct{ Kind, Message string }
		}{}
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil {
			t.Fatalf("it answers %d %q: %v", w.Code, w.Body, err)
		}
		if (w.Code == http.StatusOK) != (said.Error == nil) || said.Error != nil && (said.Error.Kind == "" || said.Error.Message == "") {
			t.Errorf("it answers %d %q", w.Code, w.Body)
		}
	})
}

// Whatever a provider's server answers: it is a state, or an error that says something.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"state":{"id":"x","ready":true,"members":[{"name":"a","health":"Healthy"}]}}`, `{}`, `{"state":null}`, `{"error":{"kind":"NotFound","message":"gone"}}`, `{"error":{}}`, `null`, ``, `{"state":{"id":7}}`,
	} {
		for _, status := range []uint16{200, 404, 422, 500, 204} {
			f.Add(status, []byte(text))
		}
	}
	answers := struct {
		status int
		text   []byte
	}{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers.status)
		_, _ = w.Write(answers.text) // some statuses have no body
	}))
	f.Cleanup(s.Close)
	c, err := webhook.New(webhook.Options{URL: s.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status uint16, text []byte) {
		answers.status, answers.text = 200+int(status)%400, text
		ref := provider.Ref{Owner: "o"}
		for call, err := range map[string]error{
			"members": c.SetMembers(t.Context(), ref, nil), "delete": c.Delete(t.Context(), ref),
			"describe": second(c.Describe(t.Context(), ref)), "ensure": second(c.Ensure(t.Context(), provider.Wanted{Ref: ref})),
		} {
			if err == nil && answers.status != http.StatusOK {
				t.Errorf("%s takes status %d for good", call, answers.status)
			}
			if err != nil && (err.Error() == "" || provider.IsTerminal(err) && errors.Is(err, provider.ErrNotFound)) {
				t.Errorf("%s says %q", call, err)
			}
		}
	})
}

func second(_ provider.State, err error) error { return err }
