package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// answersWithin bounds the silence of a process that leaves.
	answersWithin = 2 * time.Minute
	// lookEvery is how often a Lease is looked at that nobody should renew.
	lookEvery = time.Second
)

// LeaveOptions say who leaves. All but StateDir, Force and Dataplane are needed.
type LeaveOptions struct {
	Name string
	// StateDir is that of the proxy's process; empty: it has none, and must not run.
	StateDir string
	// Timeout is how long connections may run on; then they are cut.
	Timeout time.Duration
	// Force leaves although the hub can't be told.
	Force bool
	Hub   Hub
	// Dataplane that the proxy had; empty: as its Proxy says. It counts where no process runs.
	Dataplane string
	// NewDataplane makes one.
	NewDataplane func(name string) (dataplane.Dataplane, error)
	// NewBuilder makes an empty Builder for a pool and a data plane.
	NewBuilder func(pool string, dp dataplane.Dataplane) Builder
	Logger     *slog.Logger
}

// Leave has a proxy say goodbye: it asks the process that runs under that name and state directory, or does itself what that
// would, if none runs. It returns once the proxy's phase is Left; after an error it may serve nothing any more, and can be
// called again.
func Leave(ctx context.Context, o LeaveOptions) error {
	if o.StateDir == "" {
		return o.alone(ctx)
	}
	if _, err := os.Stat(lockFile(o.StateDir, o.Name)); err != nil {
		return fmt.Errorf("no proxy %s has run with state directory %s: give the --name and --state-dir that it has, or no --state-dir if it is lost (%w)", o.Name, o.StateDir, err)
	}
	dialling, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	c, err := wire.Dial(dialling, o.StateDir, socketName(o.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		held, err := lock(ctx, o.StateDir, o.Name, lockWithin)
		if errors.Is(err, errTaken) {
			return fmt.Errorf("%w, and can't be asked to leave: stop it, and run this again", err)
		}
		if err != nil {
			return err
		}
		defer held.Close()
		return o.alone(ctx)
	case err != nil:
		return err
	}
	defer c.Close()
	return o.ask(ctx, c)
}

// ask has the running process leave.
func (o *LeaveOptions) ask(ctx context.Context, c *wire.Conn) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	c.SetDeadline(time.Now().Add(stepWithin))
	if err := c.Send(message{Step: stepLeave, Proxy: o.Name, Timeout: o.Timeout, Force: o.Force}); err != nil {
		return err
	}
	began, told := false, int64(-1)
	for {
		c.SetDeadline(time.Now().Add(answersWithin))
		m, files, err := receive(c)
		closeAll(files)
		switch {
		case ctx.Err() != nil && began:
			return fmt.Errorf("%w: the proxy goes on to leave; run this again to see it through", context.Cause(ctx))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !began:
			return fmt.Errorf("the running process did not answer: if it is older than this program, start this version beside it, or stop it, and run this again (%w)", err)
		case err != nil:
			return fmt.Errorf("the process has ended before it had left: run this again (%w)", err)
		}
		switch m.Step {
		case stepOpen:
			if began = true; m.Count != told {
				told = m.Count
				o.Logger.Info("proxy serves nothing new, and waits for what is open", "proxy", o.Name, "open", m.Count)
			}
		case stepRefused:
			return errors.New(m.Because)
		case stepLeft:
			if m.Because != "" {
				return errors.New(m.Because)
			}
			o.Logger.Info("proxy has left", "proxy", o.Name)
			return nil
		default:
			return fmt.Errorf("the running process says %q, which this program doesn't know", m.Step)
		}
	}
}

// alone does what the running process would.
func (o *LeaveOptions) alone(ctx context.Context) error {
	g := o.lastGood()
	w := word{o.Hub, o.Name, "", o.Logger}
	if g != nil && g.Memory.Frozen == "" { // Else another hub waits than the one that is served.
		w.hubUID = g.memory().HubUID
	}
	if err := w.may(ctx); err != nil && !o.Force {
		return err
	}
	if err := o.chooseDataplane(ctx); err != nil {
		return err
	}
	if err := o.nobodyElse(ctx, g); err != nil {
		return err
	}
	o.Logger.Info("no process of this proxy runs here; what it left is taken away", "proxy", o.Name)
	if err := o.empty(ctx, g); err != nil {
		return err
	}
	if o.StateDir != "" {
		if err := newFile(o.StateDir, FileHeader{Proxy: o.Name}).remove(); err != nil {
			return err
		}
	}
	return w.say(context.WithoutCancel(ctx), o.Force)
}

// chooseDataplane has the one emptied that the proxy had, and no other.
func (o *LeaveOptions) chooseDataplane(ctx context.Context) error {
	px, err := o.Hub.GetProxy(ctx, o.Name)
	had := ""
	if err == nil {
		had = px.Status.Dataplane
	}
	switch {
	case o.Dataplane == "" && had == "":
		return errors.New("the hub doesn't say which data plane this proxy had: give it with --dataplane")
	case o.Dataplane == "":
		o.Dataplane = had
	case had != "" && had != o.Dataplane:
		return fmt.Errorf("this proxy's data plane was %s, not %s: leave --dataplane out", had, o.Dataplane)
	}
	return nil
}

// lastGood is nil where nothing is known of what the proxy served.
func (o *LeaveOptions) lastGood() *LastGood {
	if o.StateDir == "" {
		return nil
	}
	g, err := ReadLastGood(o.StateDir, o.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Logger.Warn("last-good file can't be used", "err", err)
	}
	return g
}

// nobodyElse returns an error if a process of this name seems to run elsewhere: what it serves must not be given to others. The
// process that reported last is known to be gone if it is the one that wrote the file.
func (o *LeaveOptions) nobodyElse(ctx context.Context, g *LastGood) error {
	px, err := o.Hub.GetProxy(ctx, o.Name)
	if err != nil && !lacks(err, o.Name) && !o.Force {
		return fmt.Errorf("reading Proxy %s: %w", o.Name, err)
	}
	if err != nil || px.Status.Phase == v1alpha1.ProxyLeft || g != nil && g.Boot == px.Status.Boot {
		return nil // It was never there, or is away, which may was asked about.
	}
	o.Logger.Info("seeing for a moment that no process of this proxy runs elsewhere", "proxy", o.Name)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	first := ""
	for until := time.Now().Add(leaseEvery + 2*lookEvery); time.Now().Before(until); {
		l, err := o.Hub.GetLease(ctx, v1alpha1.SystemNamespace, o.Name)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("reading Lease %s: %w", o.Name, err)
		case first == "":
			first = l.ResourceVersion
		case l.ResourceVersion != first:
			return fmt.Errorf("another process renews the Lease of proxy %s, so it runs elsewhere, or with another --state-dir: run this there", o.Name)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// empty takes away what a data plane runs without a process, and waits for what is open.
func (o *LeaveOptions) empty(ctx context.Context, g *LastGood) (err error) {
	dp, err := o.NewDataplane(o.Dataplane)
	if err != nil {
		return err
	}
	closed, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel() // Nothing that is open lives in this process.
	defer dp.Close(closed)
	var runs *lb.Program
	if g != nil {
		b := o.NewBuilder(g.Pool, dp)
		for r := range resources {
			for _, object := range g.Objects[r] {
				b.Set(object)
			}
		}
		runs = b.Program()
	}
	if _, err := dp.Recover(ctx, runs); err != nil {
		return fmt.Errorf("looking at what the data plane runs: %w", err)
	}
	var last *lb.Program
	if _, inside := dp.(dataplane.Heritable); !inside && runs != nil {
		last = boundDrains(runs, o.Timeout)
		if _, err := dp.Apply(ctx, last, lb.Diff(nil, last)); err != nil {
			return fmt.Errorf("bounding what is open: %w", err)
		}
	}
	none := &lb.Program{}
	if _, err := dp.Apply(ctx, none, lb.Diff(last, none)); err != nil {
		return fmt.Errorf("emptying the data plane: %w", err)
	}
	late := time.NewTimer(o.Timeout)
	defer late.Stop()
	tick := time.NewTicker(openEvery)
	defer tick.Stop()
	for over := false; !over && closing(dp.Observe()) > 0; {
		select {
		case <-late.C:
			over = true
		case <-ctx.Done():
			over = true
		case <-tick.C:
		}
	}
	return purge(dp)
}
