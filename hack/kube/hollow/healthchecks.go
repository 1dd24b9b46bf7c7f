package hollow

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
)

// healthChecks serves a node's :10256/healthz and its Services' healthCheckNodePorts.
//
// kube-proxy's own health check servers can't be used whole: ServiceHealthServer
// listens only on addresses that an interface carries, which loopback addresses
// beyond 127.0.0.1 are not, and ProxyHealthServer.Run can't be stopped. What they
// answer is theirs: the state is ProxyHealthServer's, bodies and headers are the same.
//
// For the goroutine of nodeProxy.run only.
type healthChecks struct {
	address netip.Addr
	proxy   *healthcheck.ProxyHealthServer
	log     *slog.Logger

	wanted  map[types.NamespacedName]uint16 // Services that have a port
	local   map[types.NamespacedName]*atomic.Int64
	changed map[types.NamespacedName]bool
	open    map[types.NamespacedName]*healthPort
	healthz *healthPort
}

type healthPort struct {
	number uint16
	server *http.Server
}

func newHealthChecks(address netip.Addr, proxy *healthcheck.ProxyHealthServer, log *slog.Logger) *healthChecks {
	return &healthChecks{
		address: address,
		proxy:   proxy,
		log:     log,
		wanted:  map[types.NamespacedName]uint16{},
		local:   map[types.NamespacedName]*atomic.Int64{},
		changed: map[types.NamespacedName]bool{},
		open:    map[types.NamespacedName]*healthPort{},
	}
}

// want notes which port a Service asks for; 0 for none.
func (h *healthChecks) want(service types.NamespacedName, port uint16) {
	if port == h.wanted[service] {
		return
	}
	h.changed[service] = true
	if port == 0 {
		delete(h.wanted, service)
	} else {
		h.wanted[service] = port
	}
}

// count notes how many ready endpoints a Service has on this node.
func (h *healthChecks) count(service types.NamespacedName, n int) {
	if h.local[service] == nil {
		if n == 0 {
			return
		}
		h.local[service] = &atomic.Int64{}
	}
	h.local[service].Store(int64(n))
	if n == 0 && h.wanted[service] == 0 {
		delete(h.local, service)
	}
}

// sync opens and closes what changed. It returns false if it could not open a port.
func (h *healthChecks) sync(alive bool) bool {
	if alive == (h.healthz == nil) {
		for service := range h.wanted {
			h.changed[service] = true
		}
	}
	whole := true
	var opens []types.NamespacedName
	for service := range h.changed {
		want := h.wanted[service]
		if p := h.open[service]; p != nil && (!alive || p.number != want) {
			p.close()
			delete(h.open, service)
		}
		if alive && want != 0 && h.open[service] == nil {
			opens = append(opens, service)
		}
	}
	clear(h.changed)
	for _, service := range opens {
		if h.local[service] == nil {
			h.local[service] = &atomic.Int64{}
		}
		p, err := h.listen(h.wanted[service], h.serviceHandler(service, h.local[service]))
		if err != nil {
			h.log.Error("health check node port not opened", "service", service.String(), "port", h.wanted[service], "err", err)
			h.changed[service] = true
			whole = false
			continue
		}
		h.open[service] = p
	}
	switch {
	case alive && h.healthz == nil:
		mux := http.NewServeMux()
		mux.HandleFunc("/healthz", h.serveHealthz)
		p, err := h.listen(healthzPort, mux)
		if err != nil {
			h.log.Error("healthz port not opened", "err", err)
			return false
		}
		h.healthz = p
	case !alive && h.healthz != nil:
		h.healthz.close()
		h.healthz = nil
	}
	return whole
}

func (h *healthChecks) listen(port uint16, handler http.Handler) (*healthPort, error) {
	l, err := net.ListenTCP(network("tcp", h.address), net.TCPAddrFromAddrPort(netip.AddrPortFrom(h.address, port)))
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		// Always ErrServerClosed: the listener fails only when it is closed.
		_ = s.Serve(l)
	}()
	return &healthPort{number: port, server: s}, nil
}

// close closes the socket and its connections: a dead node answers no check.
func (p *healthPort) close() { _ = p.server.Close() }

func (h *healthChecks) serveHealthz(w http.ResponseWriter, _ *http.Request) {
	health := h.proxy.Health()
	eligible := h.proxy.NodeEligible()
	health.NodeEligible = &eligible
	healthHeaders(w)
	if health.Healthy && eligible {
		health.LastUpdated = health.CurrentTime // kube-proxy: recent while healthy
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	body, err := json.Marshal(health) // not an Encoder, which ends a line
	if err != nil {
		h.log.Error("answer of healthz not made", "err", err)
		return
	}
	// An error here is the client's going away.
	_, _ = w.Write(body)
}

func (h *healthChecks) serviceHandler(service types.NamespacedName, local *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, healthy := local.Load(), h.proxy.Health().Healthy
		healthHeaders(w)
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(n, 10))
		if n == 0 || !healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "{\n\t\"service\": {\n\t\t\"namespace\": %q,\n\t\t\"name\": %q\n\t},\n\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": %v\n}",
			service.Namespace, service.Name, n, healthy)
	})
}

func healthHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func (h *healthChecks) closeAll() {
	for _, p := range h.open {
		p.close()
	}
	if h.healthz != nil {
		h.healthz.close()
	}
}
