package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
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

// serveMetrics serves health, and metrics beside, as the options say until stop is called.
func serveMetrics(o MetricsOptions, api *rest.Config, health http.Handler, metrics prometheus.Gatherer, log *slog.Logger) (stop func(), err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Address == "" {
		return func() {}, nil
	}
	var all http.Handler = promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})
	var certificates *tls.Config
	forget := func() {}
	if o.Secure {
		if all, err = askFirst(all, api, log); err != nil {
			return nil, err
		}
		if certificates, forget, err = o.certificates(log); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", health)
	mux.Handle("GET /metrics", all)
	end, err := serveHTTP(o.Address, certificates, mux, log)
	if err != nil {
		forget()
		return nil, err
	}
	return func() { end(); forget() }, nil
}

// Pauses between two attempts of persist.
const (
	persistFirst = 500 * time.Millisecond
	persistMost  = time.Minute
)

// persist serves until stop is called, which returns when nothing is served any more. What can't be served now is tried again
// until it can: for a process that has more to do than to be looked at.
func persist(serve func() (stop func(), err error), log *slog.Logger) (stop func()) {
	end, err := serve()
	if err == nil {
		return end
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause := persistFirst; ; pause = min(2*pause, persistMost) {
			log.Error("metrics, health or profiles can't be served; it is tried again", "in", pause, "err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if end, err = serve(); err == nil {
				<-ctx.Done()
				end()
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// serveHTTP serves h at address until stop is called; empty: nowhere. Without certificates it is plain HTTP.
func serveHTTP(address string, certificates *tls.Config, h http.Handler, log *slog.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving metrics, health or profiles: %w", err)
	}
	if certificates != nil {
		l = tls.NewListener(l, certificates)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics, health or profiles are no longer served", "address", l.Addr().String(), "err", err)
		}
	}()
	log.Info("metrics, health or profiles are served", "address", l.Addr().String())
	return func() { _ = s.Close() }, nil // what is open needs no answer any more
}
