package app

import (
	"log/slog"
	"net/http"
	"net/http/pprof"
)

// ServeDebug serves net/http/pprof's profiles under /debug/pprof/ until the process
// ends. They tell much about a process: address should be a loopback one. While another process has the
// address, such as a proxy that handed over and still has connections, it is tried again.
func ServeDebug(address string, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	persist(func() (func(), error) { return serveHTTP(address, nil, mux, log) }, log) // it ends with the process
}
