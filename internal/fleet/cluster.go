package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"fairlead.dev/fairlead/examples"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// joinTimeout is how long the nodes of a cluster may take to join it.
const joinTimeout = 30 * time.Second

// person is the field owner of what a person would apply.
const person = "kubectl"

// Cluster is a control plane, whose parts are kept running, and a client with all rights.
type Cluster struct {
	*testkit.ControlPlane
	API client.WithWatch
	// parts are its processes, apiServer is one of them.
	parts     []*Program
	apiServer *Program
	nodes     *testkit.Process // nil: it has none
}

// keep restarts its parts where they die, and tells of it.
func (c *Cluster) keep(died func(*Program, error)) {
	for _, process := range c.Processes() {
		p := keepProcess(process, died)
		c.parts = append(c.parts, p)
		if process == c.ControlPlane.APIServer() {
			c.apiServer = p
		}
	}
}

// StopAPIServer kills the API server; until StartAPIServer it stays down.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	if c.apiServer != nil {
		c.apiServer.letGo()
	}
	return c.ControlPlane.StopAPIServer(ctx)
}

// StartAPIServer starts it again and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.ControlPlane.StartAPIServer(ctx); err != nil {
		return err
	}
	if c.apiServer != nil {
		c.apiServer.hold()
	}
	return nil
}

// Restore starts it anew from a copy that it saved; see testkit.ControlPlane.
func (c *Cluster) Restore(ctx context.Context, from testkit.Copy, bump int) error {
	return c.anew(func() error { return c.ControlPlane.Restore(ctx, from, bump) })
}

// Empty starts it anew without any object: another cluster at the same address.
func (c *Cluster) Empty(ctx context.Context) error {
	return c.anew(func() error { return c.ControlPlane.Empty(ctx) })
}

// Lose ends it for good, its nodes included, and starts another cluster at the same address, whose nodes have the same names and
// addresses, and which has no object else. It returns once they have joined.
func (c *Cluster) Lose(ctx context.Context) error {
	return c.anew(func() error {
		if err := c.nodes.Kill(); err != nil {
			return err
		}
		if err := c.ControlPlane.Empty(ctx); err != nil {
			return err
		}
		if err := c.nodes.Start(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, joinTimeout)
		defer cancel()
		for _, n := range c.Nodes() {
			if err := testkit.Poll(ctx, 20*time.Millisecond, n.Name+" to join "+c.Name(), func(ctx context.Context) error { return c.isReady(ctx, n.Name) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Cluster) isReady(ctx context.Context, node string) error {
	o := &v1.Node{}
	if err := c.API.Get(ctx, client.ObjectKey{Name: node}, o); err != nil {
		return err
	}
	for _, condition := range o.Status.Conditions {
		if condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue {
			return nil
		}
	}
	return errors.New("it is not Ready")
}

// anew lets its parts end while do stops and starts them.
func (c *Cluster) anew(do func() error) error {
	for _, p := range c.parts {
		p.letGo()
	}
	if err := do(); err != nil {
		return err
	}
	for _, p := range c.parts {
		p.hold()
	}
	return nil
}

// Stop kills everything.
func (c *Cluster) Stop(ctx context.Context) error {
	for _, p := range c.parts {
		p.letGo()
	}
	return c.ControlPlane.Stop(ctx)
}

func startCluster(ctx context.Context, o testkit.Options) (*Cluster, error) {
	plane, err := testkit.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: plane}
	scheme, err := app.Scheme()
	if err == nil {
		c.API, err = client.NewWithWatch(plane.RESTConfig(), client.Options{Scheme: scheme})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a client of %s: %w", o.Name, err), plane.Stop(ctx))
	}
	return c, nil
}

// Example reads the objects of an example, with its addresses moved into this network.
func (w *Network) Example(name string) ([]*unstructured.Unstructured, error) {
	text, err := fs.ReadFile(examples.Manifests, name)
	if err != nil {
		return nil, fmt.Errorf("reading example %s: %w", name, err)
	}
	objects, err := parseManifest([]byte(w.manifest(string(text))))
	if err != nil {
		return nil, fmt.Errorf("reading example %s: %w", name, err)
	}
	if w.world != nil {
		for _, o := range objects {
			if err := addIPv6(o); err != nil {
				return nil, fmt.Errorf("reading example %s: %w", name, err)
			}
		}
	}
	return objects, nil
}

// addIPv6 gives a pool of more than one address, and a Tenant, what their namesakes have in IPv6.
func addIPv6(o *unstructured.Unstructured) error {
	field, more := "", ""
	switch {
	case o.GetKind() == "AddressPool" && o.GetName() == "public":
		field, more = "ranges", served6.String()
	case o.GetKind() == "Tenant":
		field, more = "targetCIDRs", nodes6.String()
	default:
		return nil
	}
	have, _, err := unstructured.NestedStringSlice(o.Object, "spec", field)
	if err != nil {
		return err
	}
	return unstructured.SetNestedStringSlice(o.Object, append(have, more), "spec", field)
}

func parseManifest(text []byte) ([]*unstructured.Unstructured, error) {
	objects := []*unstructured.Unstructured{}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}

// Apply applies objects as a person would, by server-side apply.
func (c *Cluster) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, u := range objects {
		if err := c.API.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(person), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s to %s: %w", u.GetKind(), u.GetName(), c.Name(), err)
		}
	}
	return nil
}
