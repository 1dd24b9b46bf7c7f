package builtin

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counter reads c.
func counter(t testing.TB, c prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// exhausted is a process without a file to open.
type exhausted struct {
	before syscall.Rlimit
	files  []*os.File
	t      *testing.T
}

// connectWithoutFiles has one client connect to where while the process may open no file more.
func connectWithoutFiles(t *testing.T, where net.Addr) *exhausted {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := &exhausted{t: t, files: []*os.File{os.NewFile(uintptr(fd), "client")}}
	t.Cleanup(e.release)
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &e.before); err != nil {
		t.Fatal(err)
	}
	// Fill the gaps below the limit, which then leaves nothing.
	low := e.before
	low.Cur = uint64(fd) + 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		e.files = append(e.files, f)
	}
	to := where.(*net.TCPAddr)
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Addr: to.AddrPort().Addr().As4(), Port: to.Port}); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *exhausted) release() {
	for _, f := range e.files {
		f.Close()
	}
	e.files = nil
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &e.before); err != nil {
		e.t.Error(err)
	}
}
