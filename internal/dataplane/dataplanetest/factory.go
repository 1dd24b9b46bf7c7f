package dataplanetest

import (
	"log/slog"
	"net/netip"
	"os"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane"
)

// Factory is one data plane under test.
type Factory struct {
	// Name is the data plane's, as its Name() says.
	Name string
	// New makes it, in a process and a network namespace of its own.
	New func(Options) (dataplane.Dataplane, error)
	// Addresses says what the host must do for the data plane about the addresses that it serves.
	Addresses Addresses
	// Limits says, by flow, what it can't do and no Program asks for, so that Check can't say it: the
	// reason, as the page prints it. The suite asserts what is left instead.
	Limits map[string]string
}

// Options are what the suite tells a data plane.
type Options struct {
	Logger *slog.Logger
	// Suspect is to be told addresses that refuse connections or don't answer, if the data plane notices. It doesn't block.
	Suspect func(netip.Addr)
}

// Addresses is what a host does about addresses that are served.
type Addresses int

const (
	// Routed addresses arrive at the host, which has none of them.
	Routed Addresses = iota
	// Local addresses are the host's own.
	Local
)

// hostEnv makes a test binary the process of one data plane.
const hostEnv = "FAIRLEAD_DATAPLANETEST_HOST"

// Main is what TestMain of a package that calls Run must call. It ends the process.
func Main(m *testing.M, factories []Factory) {
	name := os.Getenv(hostEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	for _, f := range factories {
		if f.Name == name {
			os.Exit(runHost(f))
		}
	}
	os.Exit(2)
}
