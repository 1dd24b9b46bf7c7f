package demo

import (
	"io"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
)

// Options of Run and Check.
type Options struct {
	// Self is the path of the fairlead binary whose subcommands are started.
	Self string
	// KubeBinary is the path of the kube binary; "" looks where testkit does.
	KubeBinary string
	// Dataplane of the proxies; "" is builtin, which needs no root. With any other the proxies, their clients and the nodes
	// are in network namespaces, which needs it.
	Dataplane string
	// Dir for data, logs and kubeconfigs; it must be empty or absent, and stays.
	// "" makes a temporary one, which is removed unless Keep is set or a step fails.
	Dir  string
	Keep bool
	// Away is how long Check takes the hub away; 0 is a minute.
	Away time.Duration
	// Only runs one step after the first, which it needs; "" runs all. See Steps.
	Only string
	// Out is where the person reads.
	Out io.Writer
	// Keys are what the person presses, in Run; nil: nothing is offered.
	Keys io.Reader
	// Screen redraws a few lines of Out in place, for terminals.
	Screen bool
}

// builtin is the data plane that needs no network namespaces.
const builtin = "builtin"

// tenants of the demo: the second shows that nothing mixes.
const tenants = 2

func (o *Options) namespaces() bool { return o.Dataplane != "" && o.Dataplane != builtin }

func (o *Options) fleet(say func(string, ...any)) fleet.Options {
	return fleet.Options{
		Self: o.Self, KubeBinary: o.KubeBinary, Dir: o.Dir, Tenants: tenants, Say: say,
		Dataplane: o.Dataplane, Namespaces: o.namespaces(), Fairness: true,
	}
}
