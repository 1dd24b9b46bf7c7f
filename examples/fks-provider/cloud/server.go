package cloud

import (
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
)

// server answers as an API server that has no Nodes: what Cluster API, and whoever probes it, asks first.
type server struct {
	http  *http.Server
	token string
	id    string
	done  chan struct{}
	mu    sync.Mutex
	// version of Kubernetes.
	version string
}

// serve has a control plane listen and answer.
func serve(r *record) (*server, error) {
	config, err := r.Identity.tls()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", r.Endpoint.String())
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	s := &server{token: r.Identity.Token, id: r.ID, version: r.Version, done: make(chan struct{})}
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)} // clients' handshakes that fail
	go func() {
		defer close(s.done)
		// It ends by close, and else the next call finds no control plane that answers.
		if err := s.http.Serve(tls.NewListener(l, config)); !errors.Is(err, http.ErrServerClosed) {
			l.Close()
		}
	}()
	return s, nil
}

func (s *server) close() {
	s.http.Close() // its error says only that connections are closed
	<-s.done
}

func (s *server) setVersion(v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = v
}

func (s *server) handler() http.Handler {
	open, closed := http.NewServeMux(), http.NewServeMux()
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		open.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }) // whoever left asks again
	}
	open.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer(w, http.StatusOK, version.Info{GitVersion: s.version})
	})
	open.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.token)) != 1 {
			answer(w, http.StatusUnauthorized, failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized))
			return
		}
		closed.ServeHTTP(w, r)
	})
	kinds := func(k string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: k} }
	closed.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound))
	})
	closed.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { // as Cluster API finds out whether it is reached
		answer(w, http.StatusOK, metav1.RootPaths{Paths: []string{"/api", "/api/v1", "/apis", "/livez", "/readyz", "/healthz", "/version"}})
	})
	closed.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: kinds("APIVersions"), Versions: []string{"v1"}})
	})
	closed.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: kinds("APIGroupList")})
	})
	closed.HandleFunc("GET /api/v1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIResourceList{TypeMeta: kinds("APIResourceList"), GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", Verbs: metav1.Verbs{"get"}},
			{Name: "nodes", SingularName: "node", Kind: "Node", Verbs: metav1.Verbs{"list", "watch"}},
		}})
	})
	closed.HandleFunc("GET /api/v1/namespaces/kube-system", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, corev1.Namespace{TypeMeta: kinds("Namespace"), ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(s.id)}})
	})
	closed.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			answer(w, http.StatusOK, corev1.NodeList{TypeMeta: kinds("NodeList"), ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		if r.URL.Query().Get("sendInitialEvents") == "true" { // a list that is asked for as a watch ends with this
			end := corev1.Node{TypeMeta: kinds("Node"), ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
			if err := json.NewEncoder(w).Encode(map[string]any{"type": watch.Bookmark, "object": end}); err != nil {
				return // it has left
			}
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return // it has left
		}
		<-r.Context().Done() // nothing ever happens
	})
	return open
}

func failure(code int32, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason)}
}

func answer(w http.ResponseWriter, code int, what any) {
	b, err := json.Marshal(what)
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b) // whoever left asks again
}
