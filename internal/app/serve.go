package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// healthMux serves /healthz (the process is there) and /readyz, which says
// what is missing while ready says no.
func healthMux(ready func() bool, missing string) *http.ServeMux {
	return healthSaying(func() string {
		if ready() {
			return ""
		}
		return missing
	})
}

// healthSaying is healthMux where several things may be missing; empty: nothing is.
func healthSaying(missing func() string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if m := missing(); m != "" {
			http.Error(w, m, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// withMetrics is health with /metrics beside.
func withMetrics(health http.Handler, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// serveHTTP serves h at address until stop is called; empty: nowhere.
func serveHTTP(address string, h http.Handler, log *slog.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving metrics or health: %w", err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics and health are no longer served", "address", l.Addr().String(), "err", err)
		}
	}()
	log.Info("metrics or health are served", "address", l.Addr().String())
	return func() { _ = s.Close() }, nil // what is open needs no answer any more
}
