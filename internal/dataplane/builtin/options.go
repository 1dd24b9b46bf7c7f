package builtin

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// What Options leave out.
const (
	DefaultConnectAttempts = 3
	DefaultConnectTimeout  = time.Second
	// DefaultTableSize gives 40 members a hundred slots each.
	DefaultTableSize = 4093
)

// Options of the data plane.
type Options struct {
	Logger *slog.Logger
	// Registerer gets the metrics; nil: nobody does.
	Registerer prometheus.Registerer
	// BindAs says at which addresses of this host to serve addresses that arrive translated. The first that fits counts.
	BindAs []Translation
	// ConnectAttempts bounds how many members a connection is tried on.
	ConnectAttempts int
	// ConnectTimeout bounds one connect.
	ConnectTimeout time.Duration
	// TableSize is the number of slots of a table; all proxies of a pool need the same.
	TableSize int
	// MaxFlows bounds the UDP flows of all frontends together; one frontend may have a quarter of them, one tenant a half.
	// 0: DefaultMaxFlows, or a quarter of the files that this process may open, if that is less.
	MaxFlows int
	// Suspect is told addresses that refused a connection or didn't answer. It must not block.
	Suspect func(netip.Addr)
}

func (o Options) complete() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ConnectAttempts <= 0 {
		o.ConnectAttempts = DefaultConnectAttempts
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.TableSize <= 0 {
		o.TableSize = DefaultTableSize
	}
	if o.MaxFlows <= 0 {
		o.MaxFlows = DefaultMaxFlows
		var files unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur/4 < DefaultMaxFlows {
			o.MaxFlows = max(int(files.Cur/4), 1)
		}
	}
	if o.Suspect == nil {
		o.Suspect = func(netip.Addr) {}
	}
	return o
}

// bindAddress is where address is served on this host.
func (o *Options) bindAddress(address netip.Addr) netip.Addr {
	for _, t := range o.BindAs {
		if to, ok := t.translate(address); ok {
			return to
		}
	}
	return address
}
