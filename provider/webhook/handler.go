package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"fairlead.dev/fairlead/provider"
)

// Handler answers the four calls with a provider. newObject returns an empty object of its kind, which gets the spec that is
// sent; nil: the provider gets no object. Who may call is for the server around it to say.
func Handler(p provider.Provider, newObject func() provider.Object) http.Handler {
	h := &handler{p, newObject}
	mux := http.NewServeMux()
	for name, f := range map[string]func(context.Context, provider.Ref, request) (answer, error){
		"describe": h.describe, "ensure": h.ensure, "members": h.members, "delete": h.delete,
	} {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, f) })
	}
	return mux
}

type handler struct {
	provider.Provider
	newObject func() provider.Object
}

func (h *handler) describe(ctx context.Context, ref provider.Ref, _ request) (answer, error) {
	s, err := h.Describe(ctx, ref)
	return answer{State: &s}, err
}

func (h *handler) ensure(ctx context.Context, ref provider.Ref, r request) (answer, error) {
	if r.Wanted == nil {
		return answer{}, provider.Terminal("the request has no wanted")
	}
	w := *r.Wanted
	w.Ref = ref
	s, err := h.Ensure(ctx, w)
	return answer{State: &s}, err
}

func (h *handler) members(ctx context.Context, ref provider.Ref, r request) (answer, error) {
	return answer{}, h.SetMembers(ctx, ref, r.Members)
}

func (h *handler) delete(ctx context.Context, ref provider.Ref, _ request) (answer, error) {
	return answer{}, h.Delete(ctx, ref)
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, f func(context.Context, provider.Ref, request) (answer, error)) {
	a, err := h.answer(r.Context(), http.MaxBytesReader(w, r.Body, maxBody), f)
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		a = answer{Error: &failure{kindFailed, err.Error()}}
		switch {
		case errors.Is(err, provider.ErrNotFound):
			status, a.Error.Kind = http.StatusNotFound, kindNotFound
		case provider.IsTerminal(err):
			status, a.Error.Kind = http.StatusUnprocessableEntity, kindRefused
		}
	}
	text, err := json.Marshal(a)
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that is gone asks again
}

func (h *handler) answer(ctx context.Context, body io.Reader, f func(context.Context, provider.Ref, request) (answer, error)) (answer, error) {
	var r request
	if err := json.NewDecoder(body).Decode(&r); err != nil {
		return answer{}, provider.Terminal("reading the request: %w", err)
	}
	ref := provider.Ref{ID: r.ID, Owner: r.Owner}
	if ref.Owner == "" {
		return answer{}, provider.Terminal("the request has no owner")
	}
	if h.newObject != nil {
		ref.Object = h.newObject()
		text, err := json.Marshal(map[string]any{"spec": r.Spec})
		if err != nil {
			return answer{}, fmt.Errorf("encoding the spec: %w", err)
		}
		if err := json.Unmarshal(text, ref.Object); err != nil {
			return answer{}, provider.Terminal("reading the spec: %w", err)
		}
	}
	return f(ctx, ref, r)
}
