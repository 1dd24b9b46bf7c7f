package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startAttempts: an attempt fails without our fault if somebody takes a port between
// our look and the start.
const startAttempts = 3

// ControlPlane is a running etcd, API server and set of controllers. Its methods may
// be called at the same time, but those that start or stop something wait for each other.
type ControlPlane struct {
	options Options
	kube    string // the binary
	dir     string
	temp    *tempDir // nil if the directory is not ours
	subnet  *subnet
	ca      *authority
	config  *rest.Config
	http    *http.Client // with config's identity

	mu          sync.Mutex
	etcd        *Process
	apiServer   *Process
	controllers *Process
	hollow      *Process // nil before StartNodes
	nodes       []NodeSpec
}

// Start starts a control plane and returns when it is ready: the API server says so,
// and the namespace default has its ServiceAccount. ctx limits the start only; the
// control plane runs until Stop, or until this process ends.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Name == "" {
		o.Name = "kube"
	}
	kube, err := KubeBinary(o.KubeBinary)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	for attempt := 1; ; attempt++ {
		c, err := startOnce(ctx, o, kube)
		if err == nil {
			return c, nil
		}
		if attempt == startAttempts || ctx.Err() != nil || !errors.Is(err, errEnded) || o.Dir != "" {
			return nil, fmt.Errorf("starting control plane %s: %w", o.Name, err)
		}
	}
}

// errEnded says that a process of the control plane ended while it should have started.
var errEnded = errors.New("ended before it was ready")

func startOnce(ctx context.Context, o Options, kube string) (_ *ControlPlane, err error) {
	c := &ControlPlane{options: o, kube: kube}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if c.subnet, err = claimSubnet(o.Subnet); err != nil {
		return c, err
	}
	if err := c.makeDir(); err != nil {
		return c, err
	}
	if err := c.writeKeys(); err != nil {
		return c, err
	}
	for _, start := range []func() error{c.startEtcd, c.startAPIServer, c.startControllers} {
		if err := start(); err != nil {
			return c, err
		}
	}
	return c, c.waitReady(ctx)
}

func (c *ControlPlane) makeDir() error {
	var err error
	if c.options.Dir == "" {
		if c.temp, err = makeTempDir(os.TempDir(), c.options.Name); err != nil {
			return err
		}
		c.dir = c.temp.path
		return nil
	}
	if c.dir, err = filepath.Abs(c.options.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(c.dir); err != nil || len(old) > 0 {
		return errors.Join(err, fmt.Errorf("directory %s is not empty", c.dir))
	}
	return nil
}

func (c *ControlPlane) startEtcd() (err error) {
	c.etcd, err = c.startPart("etcd", []string{
		"etcd",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-url=" + c.url("http", etcdPort),
		"--listen-peer-url=" + c.url("http", etcdPeerPort),
		"--unsafe-no-fsync",
		"--heartbeat-ms=25", // ready sooner; 0.38 instead of 0.27 s of CPU a minute
	})
	return err
}

func (c *ControlPlane) startAPIServer() (err error) {
	c.apiServer, err = c.startPart("apiserver", append([]string{"kube-apiserver"}, c.apiServerFlags()...))
	return err
}

func (c *ControlPlane) startControllers() (err error) {
	names := defaultControllers
	if c.options.Quota {
		names = append(names[:len(names):len(names)], "resourcequota")
	}
	c.controllers, err = c.startPart("controllers", append([]string{
		"controllers",
		"--kubeconfig=" + c.path("controllers.kubeconfig"),
		"--service-account-private-key-file=" + c.path("sa.key"),
		"--root-ca-file=" + c.path("ca.crt"),
		"--controllers=" + strings.Join(names, ","),
	}, c.options.ControllerFlags...))
	return err
}

func (c *ControlPlane) startPart(part string, args []string) (*Process, error) {
	return c.startPartOn(nil, part, args)
}

func (c *ControlPlane) startPartOn(h Host, part string, args []string) (*Process, error) {
	return StartProcess(Command{
		Host: h,
		Name: c.options.Name + " " + part,
		Path: c.kube,
		Args: args,
		Dir:  c.dir,
		Log:  c.path(part + ".log"),
	})
}

// waitReady waits for the API server and for what the controllers do first.
func (c *ControlPlane) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, p := range []*Process{c.etcd, c.apiServer, c.controllers} {
		go func() {
			select {
			case <-p.Done():
				cancel(fmt.Errorf("%s %w; end of its log:\n%s", p.Name(), errEnded, p.LogTail()))
			case <-ctx.Done():
			}
		}()
	}
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default/serviceaccounts/default"} {
		err := Poll(ctx, 20*time.Millisecond, path, func(ctx context.Context) error {
			return c.call(ctx, http.MethodGet, path, nil, nil)
		})
		if err != nil && errors.Is(err, errEnded) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%w; end of the API server's log:\n%s", err, c.apiServer.LogTail())
		}
	}
	return nil
}

// Name of the control plane.
func (c *ControlPlane) Name() string { return c.options.Name }

// Dir holds its files: NAME.log of each part, keys, kubeconfigs.
func (c *ControlPlane) Dir() string { return c.dir }

// Subnet is the /24 of loopback addresses that is this control plane's own: .1 is the
// API server, .11 and on are its nodes by default.
func (c *ControlPlane) Subnet() netip.Prefix { return c.subnet.prefix }

// APIServerAddress is where the API server listens.
func (c *ControlPlane) APIServerAddress() netip.AddrPort {
	return netip.AddrPortFrom(c.subnet.host(1), apiServerPort)
}

// Kubeconfig is the path of a kubeconfig of user admin in group system:masters. It
// carries its keys in it.
func (c *ControlPlane) Kubeconfig() string { return c.path("kubeconfig") }

// RESTConfig is the same for this process: a copy, without a rate limit.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Processes are those that run now, to look at what they cost.
func (c *ControlPlane) Processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []*Process{}
	for _, p := range []*Process{c.etcd, c.apiServer, c.controllers, c.hollow} {
		if p != nil && p.Running() {
			all = append(all, p)
		}
	}
	return all
}

// APIServer is its process, to watch over it.
func (c *ControlPlane) APIServer() *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer
}

// StopAPIServer kills the API server: its connections break, etcd keeps the objects.
func (c *ControlPlane) StopAPIServer(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.Kill()
}

// StartAPIServer starts it again at the same address and waits until it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	if err := c.apiServer.Start(); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// Stop kills everything and removes the directory if Start made it.
func (c *ControlPlane) Stop(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range []*Process{c.hollow, c.controllers, c.apiServer, c.etcd} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	if c.subnet != nil {
		c.subnet.release()
	}
	if c.temp != nil {
		errs = append(errs, c.temp.remove())
		c.temp = nil
	}
	return errors.Join(errs...)
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.dir, name) }

func (c *ControlPlane) url(scheme string, port uint16) string {
	return scheme + "://" + netip.AddrPortFrom(c.subnet.host(1), port).String()
}

func (c *ControlPlane) loadConfig() error {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading back kubeconfig: %w", err)
	}
	cfg.QPS = -1
	c.config = cfg
	c.http, err = rest.HTTPClientFor(cfg)
	return err
}
