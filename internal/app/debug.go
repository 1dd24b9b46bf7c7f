package app

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// ServeDebug serves net/http/pprof's profiles under /debug/pprof/ until the process
// ends. They tell much about a process: address should be a loopback one.
func ServeDebug(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serving profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // it ends with the process
	return nil
}
