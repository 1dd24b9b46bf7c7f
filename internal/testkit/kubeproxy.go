package testkit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
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
	// MinSyncPeriod is the time from one writing of its rules to the next. Default: kube-proxy's own, a second.
	MinSyncPeriod time.Duration
}

// StartKubeProxy starts it, and waits until it has written its rules. It ends with its Node, and with this process; its rules stay
// in the namespace. It needs root, and nft on the PATH.
func (c *ControlPlane) StartKubeProxy(ctx context.Context, k KubeProxy) (*Process, error) {
	kubeconfig, err := c.UserKubeconfig(kubeProxyUser)
	if err != nil {
		return nil, err
	}
	config, err := c.writeKubeProxyConfig(k, kubeconfig)
	if err != nil {
		return nil, err
	}
	p, err := c.startPartOn(k.Host, "kube-proxy-"+k.Node, []string{"kube-proxy", "--config=" + config})
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

// writeKubeProxyConfig writes its configuration, and returns the file: no flag sets the period of this mode.
func (c *ControlPlane) writeKubeProxyConfig(k KubeProxy, kubeconfig string) (string, error) {
	cidrs := []string{}
	for _, p := range k.ClusterCIDRs {
		cidrs = append(cidrs, p.String())
	}
	config := map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "nftables",
		"hostnameOverride":   k.Node,
		"clientConnection":   map[string]any{"kubeconfig": kubeconfig},
		"nodePortAddresses":  []string{"primary"},
		"nftables":           map[string]any{"minSyncPeriod": cmp.Or(k.MinSyncPeriod, time.Second).String()},
		"healthzBindAddress": fmt.Sprintf("0.0.0.0:%d", kubeProxyPort),
		// The tables of connections are the host's: their sizes and times stay as they are.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
	if len(cidrs) > 0 {
		config["clusterCIDR"] = strings.Join(cidrs, ",")
	}
	text, err := json.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("writing the configuration of kube-proxy of node %s: %w", k.Node, err)
	}
	path := c.path("kube-proxy-" + k.Node + ".json")
	return path, os.WriteFile(path, text, 0o600)
}
