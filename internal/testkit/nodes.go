package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	nodeStateAnnotation = "hollow.fairlead.dev/state"
	nodeTimeout         = 30 * time.Second
	kubeProxyPort       = 10256
)

// Answer is what a hollow Pod says, as JSON, to every HTTP request. GET /hold answers
// with one such line (status 101) and then sends back every byte until either side
// ends; GET /stream?every=100ms sends a line again and again.
type Answer struct {
	Cluster   string `json:"cluster"` // Options.Name
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodIP     string `json:"podIP"`
	Node      string `json:"node"`
	Port      int    `json:"port"`
	// Client is the address and port that the Pod saw.
	Client string `json:"client"`
	Host   string `json:"host"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

// StartNodes starts hollow nodes, once a control plane, and waits until all are Ready.
func (c *ControlPlane) StartNodes(ctx context.Context, specs []NodeSpec) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hollow != nil {
		return nil, fmt.Errorf("control plane %s has its nodes already", c.Name())
	}
	nodes, err := c.withAddresses(specs)
	if err != nil {
		return nil, err
	}
	args := []string{"hollow-nodes", "--kubeconfig=" + c.path("nodes.kubeconfig"), "--cluster-name=" + c.Name()}
	for _, n := range nodes {
		arg := "--node=" + n.Name + "=" + n.Address.String()
		if n.Address6.IsValid() {
			arg += "," + n.Address6.String()
		}
		if n.Zone != "" {
			arg += ",zone=" + n.Zone
		}
		args = append(args, arg)
	}
	p, err := c.startPartOn(c.options.NodesHost, "nodes", args)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, nodeTimeout, fmt.Errorf("not ready after %s", nodeTimeout))
	defer cancel()
	if err := c.waitNodes(ctx, p, nodes); err != nil {
		return nil, errors.Join(fmt.Errorf("starting nodes of %s: %w; end of their log:\n%s", c.Name(), err, p.LogTail()), p.Kill())
	}
	c.hollow, c.nodes = p, nodes
	return p, nil
}

// Nodes are those that StartNodes started, with their addresses.
func (c *ControlPlane) Nodes() []NodeSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes
}

func (c *ControlPlane) withAddresses(specs []NodeSpec) ([]NodeSpec, error) {
	if firstNodeHost+len(specs)-1 > lastNodeHost {
		return nil, fmt.Errorf("%d nodes: at most %d have addresses", len(specs), lastNodeHost-firstNodeHost+1)
	}
	nodes := make([]NodeSpec, len(specs))
	for i, n := range specs {
		if !n.Address.IsValid() {
			n.Address = c.subnet.host(byte(firstNodeHost + i))
		}
		nodes[i] = n
	}
	return nodes, nil
}

// dialFrom dials from a host; nil: from this one.
func dialFrom(h Host) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{}
		if h == nil {
			return d.DialContext(ctx, network, address)
		}
		return h.Dial(ctx, d, network, address)
	}
}

// waitNodes waits for the Ready condition and for an answer of the node's kube-proxy.
func (c *ControlPlane) waitNodes(ctx context.Context, p *Process, nodes []NodeSpec) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	answers := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialFrom(c.options.NodesHost)}}
	for _, n := range nodes {
		err := Poll(ctx, 20*time.Millisecond, "node "+n.Name, func(ctx context.Context) error {
			obj := &v1.Node{}
			if err := c.call(ctx, http.MethodGet, "/api/v1/nodes/"+n.Name, nil, obj); err != nil {
				return err
			}
			for _, condition := range obj.Status.Conditions {
				if condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue {
					return request(ctx, answers, http.MethodGet, "http://"+netip.AddrPortFrom(n.Address, kubeProxyPort).String()+"/healthz", nil, nil)
				}
			}
			return errors.New("it is not Ready")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// KillNode tells a hollow node to die: its listening sockets close and its heartbeats
// stop, open connections live on. It returns when the API server knows, which is a few
// milliseconds before the sockets are closed.
func (c *ControlPlane) KillNode(ctx context.Context, name string) error {
	return c.annotateNode(ctx, name, "dead")
}

// ReviveNode lets it come back.
func (c *ControlPlane) ReviveNode(ctx context.Context, name string) error {
	return c.annotateNode(ctx, name, nil)
}

// annotateNode sets the state, or removes it where state is nil.
func (c *ControlPlane) annotateNode(ctx context.Context, name string, state any) error {
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{nodeStateAnnotation: state}}}
	if err := c.call(ctx, http.MethodPatch, "/api/v1/nodes/"+name, patch, nil); err != nil {
		return fmt.Errorf("annotating node %s: %w", name, err)
	}
	return nil
}
