package fleet

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Metrics and profiles are served on addresses of the hub's own subnet, so that two demos don't meet.
const (
	metricsPort = 9400
	debugPort   = 9401
	managerHost = 200
	agentHost   = 210 // + the tenant's number
	proxyHost   = 220 // + the proxy's number
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
	kubeconfig, err := f.Hub.ServiceAccountKubeconfig(ctx, v1alpha1.SystemNamespace, managerAccount)
	if err != nil {
		return err
	}
	f.Manager, err = f.start("manager", managerHost, testkit.Command{}, "manager",
		"--kubeconfig="+kubeconfig)
	return err
}

func (f *Fleet) startAgentsAndProxies(ctx context.Context) error {
	for i, t := range f.Tenants {
		if err := f.startAgent(ctx, t, i+1); err != nil {
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
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	account := client.ObjectKey{Namespace: t.Name(), Name: v1alpha1.AgentServiceAccount}
	err := testkit.Poll(ctx, 20*time.Millisecond, "the manager to make "+account.String(), func(ctx context.Context) error {
		return f.Hub.API.Get(ctx, account, &v1.ServiceAccount{})
	})
	if err != nil {
		return err
	}
	hub, err := f.Hub.ServiceAccountKubeconfig(ctx, account.Namespace, account.Name)
	if err != nil {
		return err
	}
	own, err := t.ServiceAccountKubeconfig(ctx, v1alpha1.SystemNamespace, agentAccount)
	if err != nil {
		return err
	}
	t.Agent, err = f.start("agent-"+t.Name(), agentHost+number, testkit.Command{}, "agent",
		"--tenant="+t.Name(),
		"--hub-kubeconfig="+hub,
		"--kubeconfig="+own)
	return err
}

// startProxy starts a proxy that may bind no port below 1024.
//
// A plain user's process may not; root's may. So that the story is the same for
// both, root starts proxies without CAP_NET_BIND_SERVICE: it is taken out of the bounding set
// of the thread that forks, and execve gives nobody, root neither, what that set lacks.
func (f *Fleet) startProxy(ctx context.Context, number int, at func(netip.Addr) netip.Addr, flags ...string) error {
	name := fmt.Sprintf("edge-%d", number)
	// Its identity has its name, and may write under no other.
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: name}}
	if err := f.Hub.API.Create(ctx, account); err != nil {
		return fmt.Errorf("making the identity of %s: %w", name, err)
	}
	kubeconfig, err := f.Hub.ServiceAccountKubeconfig(ctx, account.Namespace, account.Name)
	if err != nil {
		return err
	}
	c, dial := testkit.Command{}, traffic.Dial(nil)
	if w := f.Network.world; w != nil {
		if err := w.relayToProxy(number, f.Hub.APIServerAddress()); err != nil {
			return err
		}
		c.Host, dial = w.proxyHost(number), w.dialProxy(number)
	}
	if os.Geteuid() == 0 {
		c.DropCapabilities = []uintptr{unix.CAP_NET_BIND_SERVICE}
	}
	p, err := f.start(name, proxyHost+number, c, append([]string{"proxy",
		"--name=" + name,
		"--pool=" + ProxyPool,
		"--dataplane=" + cmp.Or(f.options.Dataplane, "builtin"),
		"--kubeconfig=" + kubeconfig,
		"--state-dir=" + filepath.Join(f.Dir, name)}, flags...)...)
	if err != nil {
		return err
	}
	f.Proxies = append(f.Proxies, &Proxy{Program: p, Metrics: netip.AddrPortFrom(f.ownAddress(proxyHost+number), metricsPort), at: at, host: c.Host, dial: dial})
	return nil
}
