package survival

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// extra is a proxy beside the fleet's, on loopback, whose way to the hub can be cut.
type extra struct {
	*fleet.Relay
	name string
	// block is the second byte of the addresses that it binds.
	block   byte
	command testkit.Command
	process *testkit.Process
	// metrics is it as the fleet would see it.
	metrics *fleet.Proxy
	state   string
}

// Way is how clients reach a granted address through it.
func (x *extra) Way(a netip.Addr, port uint16) traffic.Way {
	return traffic.Way{Name: x.name, Address: netip.AddrPortFrom(x.at(a), port)}
}

func (x *extra) at(a netip.Addr) netip.Addr {
	b := a.As4()
	b[1] = x.block
	return netip.AddrFrom4(b)
}

// newExtra makes a proxy with an identity of that name, which must be there once only, and starts it. At the end of the
// test it is killed, and its Proxy deleted.
func (w *world) newExtra(t *testing.T, name string, block byte) *extra {
	t.Helper()
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: name}}
	must(t, client.IgnoreAlreadyExists(w.Hub.API.Create(t.Context(), account)))
	kubeconfig, err := w.Hub.ServiceAccountKubeconfig(t.Context(), account.Namespace, account.Name)
	must(t, err)
	state, err := os.MkdirTemp(w.Dir, name+"-")
	must(t, err)
	metrics := netip.AddrPortFrom(w.hubAddress(block), 9400)
	relayed := filepath.Join(state, "kubeconfig")
	x := &extra{Relay: startRelay(t, netip.MustParseAddrPort("127.0.0.1:0"), w.Hub.APIServerAddress()), name: name, block: block, state: state, metrics: &fleet.Proxy{Program: &fleet.Program{Name: name}, Metrics: metrics}}
	served := w.Network.Served()
	must(t, x.Kubeconfig(kubeconfig, relayed))
	x.command = testkit.Command{
		Name: name, Path: w.self, Log: filepath.Join(w.Dir, fmt.Sprintf("%s-%d.log", name, block)),
		Args: []string{"proxy", "--name=" + name, "--pool=" + fleet.ProxyPool, "--kubeconfig=" + relayed, "--state-dir=" + x.state,
			"--metrics-address=" + metrics.String(), fmt.Sprintf("--bind-as=%s=%s", served, netip.PrefixFrom(x.at(served.Addr()), served.Bits()))},
	}
	x.process, err = testkit.StartProcess(x.command)
	must(t, err)
	t.Cleanup(func() {
		if err := x.process.Kill(); err != nil {
			t.Error(err)
		}
		if err := client.IgnoreNotFound(w.Hub.API.Delete(context.Background(), &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: name}})); err != nil {
			t.Error(err)
		}
	})
	return x
}

// awaitFiled waits until its file has an address: what is added comes there within a second.
func (x *extra) awaitFiled(t *testing.T, a netip.Addr) {
	t.Helper()
	eventually(t, soon, "the file of "+x.name+" to have "+a.String(), func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(x.state, x.name+".last-good"))
		if err == nil && !strings.Contains(string(text), fmt.Sprintf(`"address":%q`, a)) {
			err = errors.New("it has not")
		}
		return err
	})
}

// hubAddress is an address of the hub's own subnet.
func (w *world) hubAddress(host byte) netip.Addr {
	b := w.Hub.Subnet().Addr().As4()
	b[3] = host
	return netip.AddrFrom4(b)
}

// awaitWeb waits until both tenants' Services answer through it.
func (w *world) awaitWeb(t *testing.T, fronts ...front) {
	t.Helper()
	for i, tenant := range w.Tenants {
		awaitAnswers(t, tenant, w.web[i], fronts...)
	}
}
