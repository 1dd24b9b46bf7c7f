package dataplanetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/rpc"
	"os"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/health"
	"fairlead.dev/fairlead/internal/lb"
)

// Host is a data plane in a process of its own with the checks of its members, as a proxy has them. Its exported methods
// are called by net/rpc, from the test's process.
type Host struct {
	dp      dataplane.Dataplane
	checker *health.Checker

	mu sync.Mutex
	// wanted is the last Program asked for, applied the last one that was applied, with health.
	wanted, applied *lb.Program
	changes         int
}

// runHost serves the process that holds the other end of file 3, until that end is closed.
func runHost(f Factory) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := serveHost(f, log); err != nil {
		log.Error("host ends", "dataplane", f.Name, "err", err)
		return 1
	}
	return 0
}

func serveHost(f Factory, log *slog.Logger) error {
	conn, err := net.FileConn(os.NewFile(3, "control"))
	if err != nil {
		return fmt.Errorf("opening the control socket: %w", err)
	}
	h := &Host{checker: health.New(health.Options{Logger: log})}
	h.dp, err = f.New(Options{Logger: log, Suspect: h.checker.Suspect})
	if err != nil {
		return fmt.Errorf("making data plane %s: %w", f.Name, err)
	}
	if name := h.dp.Name(); name != f.Name {
		return fmt.Errorf("data plane %s says that it is %s", f.Name, name)
	}
	go h.follow(log)
	server := rpc.NewServer()
	if err := server.Register(h); err != nil {
		return err
	}
	server.ServeConn(conn)
	return nil
}

// follow applies verdicts as they come, and counts what the data plane calls out.
func (h *Host) follow(log *slog.Logger) {
	for {
		select {
		case <-h.dp.Changed():
			h.mu.Lock()
			h.changes++
			h.mu.Unlock()
		case <-h.checker.Changed():
			h.mu.Lock()
			if h.wanted != nil {
				if _, err := h.apply(); err != nil {
					log.Error("applying verdicts failed", "err", err)
				}
			}
			h.mu.Unlock()
		}
	}
}

// Nothing is an argument or a result that says nothing; net/rpc wants a field.
type Nothing struct{ Nothing bool }

// Programs are the arguments and results about Programs.
type Programs struct{ Program *lb.Program }

// Problems are results of Check.
type Problems struct{ Problems []lb.Problem }

// Applied is the result of Apply.
type Applied struct {
	Outcome dataplane.Outcome
	// Took is the time of the data plane's own Apply.
	Took time.Duration
}

// Observed is the result of Observe.
type Observed struct {
	Observation dataplane.Observation
	// Changes counts the values of Changed.
	Changes int
}

// Farewell is the argument of Close.
type Farewell struct{ Patience time.Duration }

// Check asks the data plane what it can't express of each tenant's Snapshot.
func (h *Host) Check(p Programs, out *Problems) error {
	for _, s := range p.Program.Tenants {
		out.Problems = append(out.Problems, h.dp.Check(s)...)
	}
	return nil
}

// Recover is Dataplane.Recover.
func (h *Host) Recover(p Programs, out *dataplane.Drift) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*out, err = h.dp.Recover(context.Background(), p.Program)
	return err
}

// Apply checks what the Program asks to be checked and applies it: with its own Health where it has one, else with what the checks found.
func (h *Host) Apply(p Programs, out *Applied) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted = p.Program
	if p.Program.Health == nil {
		h.checker.SetProbes(probes(p.Program))
	}
	start := time.Now()
	outcome, err := h.apply()
	*out = Applied{outcome, time.Since(start)}
	return err
}

// apply applies what is wanted; h.mu is held.
func (h *Host) apply() (dataplane.Outcome, error) {
	next := *h.wanted
	if next.Health == nil {
		next.Health = h.checker.Verdicts()
	}
	outcome, err := h.dp.Apply(context.Background(), &next, lb.Diff(h.applied, &next))
	if err == nil {
		h.applied = &next
	}
	return outcome, err
}

// Verdicts are what the checks found.
func (h *Host) Verdicts(_ Nothing, out *lb.Health) error {
	*out = h.checker.Verdicts()
	return nil
}

// Observe is Dataplane.Observe.
func (h *Host) Observe(_ Nothing, out *Observed) error {
	out.Observation = h.dp.Observe()
	h.mu.Lock()
	defer h.mu.Unlock()
	out.Changes = h.changes
	return nil
}

// Close is Dataplane.Close; what had to be cut is no error.
func (h *Host) Close(f Farewell, _ *Nothing) error {
	ctx, cancel := context.WithTimeout(context.Background(), f.Patience)
	defer cancel()
	if err := h.dp.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// probes are the checks of all members that may get connections.
func probes(p *lb.Program) map[lb.TenantID]map[lb.Probe]struct{} {
	out := map[lb.TenantID]map[lb.Probe]struct{}{}
	for id, s := range p.Tenants {
		out[id] = map[lb.Probe]struct{}{}
		for _, pool := range s.Pools {
			g := s.Groups[pool.Group]
			if g == nil {
				continue
			}
			for _, m := range g.Members {
				if !m.Draining {
					out[id][lb.Probe{Check: pool.Check, Address: m.Address}] = struct{}{}
				}
			}
		}
	}
	return out
}
