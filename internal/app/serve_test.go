package app

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// One address for both serves both.
func TestMetricsAndHealthAtOneAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &lives{Logger: slog.New(slog.DiscardHandler), Metrics: MetricsOptions{Address: address}, HealthAddress: address}
	stop, err := s.serve()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/else": http.StatusNotFound} {
		res, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, res.StatusCode, want)
		}
	}
}
