package capi_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/testkit/netns"
)

// lan is the one address that isn't loopback's. The kernel has this host's own connections come from it where nftables hides who
// made them, for loopback's own address is none that may be used for that.
const lan = "192.0.2.1/24"

// services is where the hub's Services are.
const services = "10.96.0.0/16"

// insideEnv is set in the process that runs the tests, in a network namespace of its own.
const insideEnv = "FAIRLEAD_CAPI_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		os.Exit(m.Run())
	}
	if err := runInside(); err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) && ended.ExitCode() > 0 {
			os.Exit(ended.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "running the tests in a network namespace:", err)
		os.Exit(1)
	}
}

// runInside runs this program in a network namespace that leads nowhere. It ends with this process.
func runInside() error {
	network := netns.New()
	defer network.Close()
	inside := network.Namespace("cluster-api")
	inside.Bridge("lan0") // nothing is on it
	inside.Address("lan0", lan)
	inside.Set("ipv4/ip_forward", "1") // nftables serves nothing without it
	// What goes to a Service needs some way, or it can't begin to; kube-proxy turns it elsewhere then.
	inside.Route(services, netip.MustParsePrefix(lan).Addr().Next().String())
	inside.Local(netip.MustParsePrefix(fmt.Sprintf(machinesOfServices, 0)).Masked().Addr().String() + "/16")
	if err := network.Err(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return inside.Do(cmd.Run) // on one thread to its end, which the signal goes by
}
