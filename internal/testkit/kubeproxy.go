package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// proxyTimeout is how long kube-proxy may take to write its first rules. It takes 0.3 s.
const proxyTimeout = 60 * time.Second

// kubeProxyUser has the rights of kube-proxy, by RBAC's own bootstrap policy.
const kubeProxyUser = "system:kube-proxy"

// KubeProxy is the real kube-proxy of one node, in nftables mode.
type KubeProxy struct {
	// Node is the name of its Node, which exists, with an address of Host as its first InternalIP.
	Node string
	// Host is a network namespace of the node's own, from which the API server can be reached at its own address. It forwards packets.
	Host Host
	// ClusterCIDRs are where the cluster's Pods are, one a family at most; none: the cluster has no Pods.
	ClusterCIDRs []netip.Prefix
}

// StartKubeProxy starts it, and waits until it has written its rules. It ends with its Node, and with this process; its rules stay
// in the namespace. It needs root, and nft on the PATH.
func (c *ControlPlane) StartKubeProxy(ctx context.Context, k KubeProxy) (*Process, error) {
	kubeconfig, err := c.UserKubeconfig(kubeProxyUser)
	if err != nil {
		return nil, err
	}
	flags := []string{
		"kube-proxy",
		"--kubeconfig=" + kubeconfig,
		"--hostname-override=" + k.Node,
		"--proxy-mode=nftables",
		"--nodeport-addresses=primary",
		// The tables of connections are the host's: their sizes and times stay as they are.
		"--conntrack-max-per-core=0", "--conntrack-min=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
	}
	cidrs := []string{}
	for _, p := range k.ClusterCIDRs {
		cidrs = append(cidrs, p.String())
	}
	if len(cidrs) > 0 {
		flags = append(flags, "--cluster-cidr="+strings.Join(cidrs, ","))
	}
	p, err := c.startPartOn(k.Host, "kube-proxy-"+k.Node, flags)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, proxyTimeout, fmt.Errorf("not ready after %s", proxyTimeout))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	answers := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialFrom(k.Host)}}
	err = Poll(ctx, 20*time.Millisecond, p.Name(), func(ctx context.Context) error {
		if !p.Running() {
			end(errEnded)
			return errEnded
		}
		return request(ctx, answers, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/healthz", kubeProxyPort), nil, nil)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting kube-proxy of node %s: %w; end of its log:\n%s", k.Node, err, p.LogTail()), p.Kill())
	}
	return p, nil
}
