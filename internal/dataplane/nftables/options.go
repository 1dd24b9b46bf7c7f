package nftables

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// DefaultTable is the name of our table, of family inet.
	DefaultTable = "fairlead"
	// DefaultOrphanTimeout is that of pools that say nothing.
	DefaultOrphanTimeout = 5 * time.Minute
)

// Options of the data plane.
type Options struct {
	Logger *slog.Logger
	// Registerer gets the metrics; nil: nobody does.
	Registerer prometheus.Registerer
	// Namespace is the network namespace to serve in: a path, or the name of one in /run/netns. Empty: that of the
	// thread that calls New.
	Namespace string
	// Table is the name of our table (of family inet); no other is touched.
	Table string
	// OrphanTimeout bounds connections that a former process left without saying for how long.
	OrphanTimeout time.Duration
}

func (o Options) complete() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.OrphanTimeout <= 0 {
		o.OrphanTimeout = DefaultOrphanTimeout
	}
	return o
}
