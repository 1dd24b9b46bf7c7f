package fleet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	"golang.org/x/sys/unix"
)

// Metrics and profiles are served on addresses of the hub's own subnet, so that two demos don't meet.
const (
	metricsPort = 9400
	debugPort   = 9401
	managerHost = 200
	agentHost   = 210 // + the tenant's number
	proxyHost   = 220 // + the proxy's number
	relayPort   = 6443
)

func (f *Fleet) ownAddress(host int) netip.Addr {
	b := f.Hub.Subnet().Addr().As4()
	b[3] = byte(host)
	return netip.AddrFrom4(b)
}

// start starts one of our own subcommands, with its metrics at that host of the hub's subnet.
func (f *Fleet) start(name string, host int, c testkit.Command, args ...string) (*Program, error) {
	address := f.ownAddress(host)
	args = append(args, "--metrics-address="+netip.AddrPortFrom(address, metricsPort).String())
	debug := netip.AddrPortFrom(address, debugPort)
	if f.options.Profiles {
		args = append(args, "--debug-address="+debug.String())
	}
	c.Name, c.Path, c.Args, c.Log = name, f.options.Self, args, filepath.Join(f.Dir, name+".log")
	p, err := startProgram(c, f.died)
	if err == nil {
		p.Debug = debug
	}
	return p, err
}

func (f *Fleet) startManager(ctx context.Context) error {
	if err := f.identify(ctx, managerIdentity, nil); err != nil {
		return err
	}
	var err error
	f.Manager, err = f.start("manager", managerHost, testkit.Command{}, "manager",
		"--kubeconfig="+f.kubeconfig(managerIdentity))
	return err
}

func (f *Fleet) startAgentsAndProxies(ctx context.Context) error {
	for i, t := range f.Tenants {
		if err := f.startAgent(ctx, t, i+1); err != nil {
			return err
		}
	}
	for number := range proxyCount {
		if err := f.makeProxyAccount(ctx, number+1); err != nil {
			return err
		}
	}
	same := func(a netip.Addr) netip.Addr { return a }
	if err := f.startProxy(ctx, 1, same); err != nil {
		return err
	}
	if f.Network.world != nil {
		return f.startProxy(ctx, 2, same)
	}
	return f.startProxy(ctx, 2, f.Network.translate, f.Network.bindAs()...)
}

// startAgent waits for the identity that the manager makes for the tenant's agent, and starts it.
func (f *Fleet) startAgent(ctx context.Context, t *Tenant, number int) error {
	if err := f.identify(ctx, agentIdentity(t), nil); err != nil {
		return err
	}
	own, err := t.ServiceAccountKubeconfig(ctx, v1alpha1.SystemNamespace, agentAccount)
	if err != nil {
		return err
	}
	t.own = own
	t.Agent, err = f.start("agent-"+t.Name(), agentHost+number, testkit.Command{}, "agent",
		"--tenant="+t.Name(),
		"--hub-kubeconfig="+f.kubeconfig(agentIdentity(t)),
		"--kubeconfig="+own)
	return err
}

// Command is a subcommand as the hub's operator runs it, who has all rights there.
func (f *Fleet) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, f.options.Self, append(args, "--kubeconfig="+f.Hub.Kubeconfig())...)
}

// startProxy starts a proxy that may bind no port below 1024.
//
// A plain user's process may not; root's may. So that the story is the same for
// both, root starts proxies without CAP_NET_BIND_SERVICE: it is taken out of the bounding set
// of the thread that forks, and execve gives nobody, root neither, what that set lacks.
func (f *Fleet) startProxy(ctx context.Context, number int, at func(netip.Addr) netip.Addr, flags ...string) error {
	name := proxyName(number)
	c, dial := testkit.Command{}, traffic.Dial(nil)
	if w := f.Network.world; w != nil {
		c.Host, dial = w.proxyHost(number), w.dialProxy(number)
	}
	relay, err := f.relayToHub(number)
	if err != nil {
		return err
	}
	if err := f.identify(ctx, proxyIdentity(name), relay); err != nil {
		relay.Close()
		return err
	}
	if os.Geteuid() == 0 {
		c.DropCapabilities = []uintptr{unix.CAP_NET_BIND_SERVICE}
	}
	own := netip.Addr{}
	if f.options.HostAddresses {
		own = f.Network.proxy(number)
		flags = append(flags, "--address="+own.String())
	}
	p, err := f.start(name, proxyHost+number, c, append([]string{"proxy",
		"--name=" + name,
		"--pool=" + ProxyPool,
		"--dataplane=" + cmp.Or(f.options.Dataplane, builtin),
		"--kubeconfig=" + f.kubeconfig(proxyIdentity(name)),
		"--state-dir=" + filepath.Join(f.Dir, name)}, flags...)...)
	if err != nil {
		relay.Close()
		return err
	}
	f.Proxies = append(f.Proxies, &Proxy{
		Program: p, Metrics: netip.AddrPortFrom(f.ownAddress(proxyHost+number), metricsPort),
		own: own, at: at, relay: relay, host: c.Host, dial: dial, ownSockets: cmp.Or(f.options.Dataplane, builtin) == builtin,
	})
	return nil
}

// relayToHub is the way of the proxy of that number to the hub: in a namespace at the hub's own address.
func (f *Fleet) relayToHub(number int) (*Relay, error) {
	if w := f.Network.world; w != nil {
		return w.relayToProxy(number, f.Hub.APIServerAddress())
	}
	at := netip.AddrPortFrom(f.ownAddress(proxyHost+number), relayPort)
	l, err := net.Listen("tcp4", at.String())
	if err != nil {
		return nil, fmt.Errorf("relaying %s to the hub: %w", at, err)
	}
	return NewRelay(l, f.Hub.APIServerAddress()), nil
}
