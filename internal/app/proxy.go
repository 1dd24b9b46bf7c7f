package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/health"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy"
	"fairlead.dev/fairlead/internal/resolve"
	"fairlead.dev/fairlead/internal/version"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
)

// ProxyOptions are what `fairlead proxy` is told.
type ProxyOptions struct {
	Kubeconfig, Context string
	Name, Pool, Zone    string
	Addresses           []string
	Dataplane           string
	BindAs              []string
	ConnectAttempts     int
	StateDir            string
	// Metrics are shown to those whom the hub knows.
	Metrics         MetricsOptions
	ShutdownTimeout time.Duration
	HandoverTimeout time.Duration
	Logger          *slog.Logger
}

// RunProxy serves until ctx ends.
func RunProxy(ctx context.Context, o ProxyOptions) error {
	log := o.Logger
	klog.SetSlogLogger(log)
	if err := o.check(); err != nil {
		return err
	}
	own := ownAddresses(o.Addresses, log)
	raiseFileLimit(log)
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	cfg, err := LoadConfig(o.Kubeconfig, o.Context, "proxy")
	if err != nil {
		return err
	}
	hub, err := proxy.NewClient(cfg, scheme, o.Name, func(resource string, err error) {
		log.Info("watch of the hub broke; it is tried again", "resource", resource, "err", err)
	})
	if err != nil {
		return err
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	checker := health.New(health.Options{Logger: log, Registerer: registry})
	defer checker.Close()
	names := resolve.New(resolve.Options{Logger: log, Registerer: registry, File: o.namesFile()})
	defer names.Close()
	dp, err := newDataplane(o.Dataplane, DataplaneOptions{
		Logger: log, Registerer: registry, BindAs: o.BindAs, ConnectAttempts: o.ConnectAttempts, Suspect: checker.Suspect,
	})
	if err != nil {
		return err
	}
	var p *proxy.Proxy
	stop := func() {}
	defer func() { stop() }()
	p = proxy.New(proxy.Options{
		Name: o.Name, Pool: o.Pool, Zone: o.Zone, Addresses: own, Version: version.String(),
		Hub: hub, Source: hub,
		NewBuilder: func() proxy.Builder {
			return build.New(build.Options{ProxyPool: o.Pool, Addresses: own, Zone: o.Zone, Check: dp.Check})
		},
		Dataplane: dp,
		Checker:   checker,
		Names:     names,
		Explain: func(probe lb.Probe) string {
			d, ok := checker.Detail(probe)
			switch {
			case !ok:
				return ""
			case d.Err != nil:
				return d.Err.Error()
			case d.Checked.IsZero():
				return "found so before; this check has no result yet"
			}
			return ""
		},
		StateDir: o.StateDir, ShutdownTimeout: o.ShutdownTimeout, HandoverTimeout: o.HandoverTimeout,
		// Of two processes of one name, one can serve metrics at that address. Traffic doesn't wait for them.
		Alone: func() {
			stop = persist(func() (func(), error) {
				return serveMetrics(o.Metrics, cfg, healthMux(p.Ready, "nothing is applied yet"), registry, log)
			}, log)
		},
		HandedOver: func() {
			stop()
			names.Close() // What is open runs on; nothing new is sent to anybody.
		},
		Logger: log, Metrics: proxy.NewMetrics(registry),
	})
	return p.Run(ctx)
}

// namesFile is where the addresses of names are remembered: a name server may be away when this process starts.
func (o *ProxyOptions) namesFile() string {
	if o.StateDir == "" {
		return ""
	}
	return filepath.Join(o.StateDir, o.Name+".names")
}

// check judges what is not judged where it is used. The name is that of an object, and of a file.
func (o *ProxyOptions) check() error {
	if err := checkProxyName(o.Name); err != nil {
		return err
	}
	if o.Pool == "" {
		return errors.New("--pool: must be set")
	}
	return o.Metrics.check()
}

// maxOwnAddresses is what a Proxy's spec.addresses holds.
const maxOwnAddresses = 16

// ownAddresses reads this host's addresses, as others reach them. What is no such address is left out with a warning, and an empty
// one without: who starts no proxy for its sake serves nothing of all the rest.
func ownAddresses(given []string, log *slog.Logger) []netip.Addr {
	var out []netip.Addr
	for _, s := range given {
		a, err := netip.ParseAddr(s)
		a = a.Unmap()
		switch {
		case s == "" || slices.Contains(out, a):
		case err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast():
			log.Warn("--address is left out, pools of proxyHosts aren't served there: give an IP address at which others reach this host, such as 192.0.2.20", "address", s)
		case len(out) == maxOwnAddresses:
			log.Warn("--address is left out, pools of proxyHosts aren't served there: 16 addresses are the limit", "address", s)
		default:
			out = append(out, a)
		}
	}
	return out
}

func checkProxyName(name string) error {
	wrong := validation.IsDNS1123Subdomain(name)
	if len(name) > 63 {
		wrong = []string{"must have at most 63 characters"}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("--name %q: %s", name, strings.Join(wrong, "; "))
	}
	return nil
}

// raiseFileLimit makes room for many connections: two files each.
func raiseFileLimit(log *slog.Logger) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("limit of open files can't be read", "err", err)
		return
	}
	if limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			log.Warn("limit of open files can't be raised", "err", err)
			return
		}
	}
	log.Debug("limit of open files", "files", limit.Cur)
}
