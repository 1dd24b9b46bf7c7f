package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"fairlead.dev/fairlead/hack/kube/hollow"
)

// runHollowNodes plays all nodes of one cluster.
func runHollowNodes(ctx context.Context, args []string) error {
	fs := pflag.NewFlagSet("hollow-nodes", pflag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig with cluster-admin rights")
	cluster := fs.String("cluster-name", "", "named in every answer of a Pod")
	specs := fs.StringArray("node", nil, "NAME=IPv4[,IPv6][,zone=ZONE]; repeat for each node, always in the same order")
	heartbeat := fs.Duration("heartbeat", 10*time.Second, "time between two renewals of a node's Lease")
	if err := fs.Parse(args); err != nil {
		return err
	}
	nodes := []hollow.NodeSpec{}
	for _, s := range *specs {
		n, err := parseNode(s)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	cfg.QPS = -1 // no limit: loopback needs none
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cfg.UserAgent = "hollow-nodes"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	return hollow.Run(ctx, hollow.Options{
		Client:    client,
		Cluster:   *cluster,
		Nodes:     nodes,
		Heartbeat: *heartbeat,
		Log:       slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// parseNode reads NAME=IPv4[,IPv6][,zone=ZONE].
func parseNode(s string) (hollow.NodeSpec, error) {
	wrong := fmt.Errorf("--node %q: want NAME=IPv4[,IPv6][,zone=ZONE]", s)
	name, rest, _ := strings.Cut(s, "=")
	words := strings.Split(rest, ",")
	address, err := netip.ParseAddr(words[0])
	if name == "" || err != nil || !address.Is4() {
		return hollow.NodeSpec{}, wrong
	}
	n := hollow.NodeSpec{Name: name, Address: address}
	for _, word := range words[1:] {
		zone, isZone := strings.CutPrefix(word, "zone=")
		address, err := netip.ParseAddr(word)
		switch {
		case isZone && n.Zone == "":
			n.Zone = zone
		case err == nil && address.Is6() && !address.Is4In6() && !n.Address6.IsValid():
			n.Address6 = address
		default:
			return hollow.NodeSpec{}, wrong
		}
	}
	return n, nil
}
