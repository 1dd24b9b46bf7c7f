package dataplanetest

import (
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/dataplane"
	"golang.org/x/sys/unix"
)

// A planned restart, as internal/proxy does it, but that the files go from one process to the other by pidfd_getfd.

// Parts are what one process hands to another. FDs count in the process Of.
type Parts struct {
	Of    int
	Parts []dataplane.Part
}

var errOutlives = errors.New("the data plane has nothing to hand over")

func (h *Host) heritable() (dataplane.Heritable, error) {
	if dp, ok := h.dp.(dataplane.Heritable); ok {
		return dp, nil
	}
	return nil, errOutlives
}

// with calls do with the data plane, between two Applies.
func (h *Host) with(do func(dataplane.Heritable)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	dp, err := h.heritable()
	if err == nil {
		do(dp)
	}
	return err
}

// Heritable says whether the data plane hands its sockets over.
func (h *Host) Heritable(_ Nothing, out *bool) error {
	_, err := h.heritable()
	*out = err == nil
	return nil
}

// Listeners is dataplane.Heritable's.
func (h *Host) Listeners(_ Nothing, out *Parts) error {
	return h.with(func(dp dataplane.Heritable) { out.Parts = dp.Listeners() })
}

// Suspend is dataplane.Heritable's.
func (h *Host) Suspend(_ Nothing, out *Parts) error {
	return h.with(func(dp dataplane.Heritable) { out.Parts = dp.Suspend() })
}

// Yield is dataplane.Heritable's.
func (h *Host) Yield(Nothing, *Nothing) error { return h.with(dataplane.Heritable.Yield) }

// Open is dataplane.Heritable's.
func (h *Host) Open(_ Nothing, out *dataplane.Open) error {
	return h.with(func(dp dataplane.Heritable) { *out = dp.Open() })
}

// Remain is dataplane.Heritable's.
func (h *Host) Remain(open dataplane.Open, _ *Nothing) error {
	return h.with(func(dp dataplane.Heritable) { dp.Remain(open) })
}

// Inherit is dataplane.Heritable's.
func (h *Host) Inherit(p Parts, _ *Nothing) error {
	parts, err := p.fetch()
	if err != nil {
		return err
	}
	return h.with(func(dp dataplane.Heritable) { dp.Inherit(parts) })
}

// Adopt is dataplane.Heritable's.
func (h *Host) Adopt(p Parts, _ *Nothing) error {
	parts, err := p.fetch()
	if err != nil {
		return err
	}
	return h.with(func(dp dataplane.Heritable) { dp.Adopt(parts) })
}

// fetch copies the files into this process.
func (p Parts) fetch() ([]dataplane.Part, error) {
	of, err := unix.PidfdOpen(p.Of, 0)
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", p.Of, err)
	}
	defer unix.Close(of)
	out := make([]dataplane.Part, len(p.Parts))
	for i, part := range p.Parts {
		if part.FD, err = unix.PidfdGetfd(of, part.FD, 0); err != nil {
			return nil, fmt.Errorf("copying %s: %w", part.What, err)
		}
		out[i] = part
	}
	return out, nil
}

// heritable says whether the data plane hands its sockets over.
func (p *proxy) heritable() (yes bool) {
	p.w.Helper()
	p.ask("Heritable", Nothing{}, &yes)
	return yes
}

func (p *proxy) open() dataplane.Open {
	p.w.Helper()
	var out dataplane.Open
	p.ask("Open", Nothing{}, &out)
	return out
}

// successor starts another process in p's place, as a planned restart does, with the services that p serves. A data plane that
// hands over goes on in p too, for what is open there.
func (p *proxy) successor(services ...service) *proxy {
	p.w.Helper()
	last := program(services...)
	if !p.heritable() {
		p.close(patience)
		p.kill()
		next := p.w.start(p.on)
		next.recover(last)
		next.apply(services...)
		return next
	}
	next := p.w.start(p.on)
	next.recover(last)
	next.take("Inherit", p, "Listeners")
	next.apply(services...)
	next.take("Adopt", p, "Suspend")
	p.ask("Yield", Nothing{}, &Nothing{})
	next.ask("Remain", p.open(), &Nothing{})
	return next
}

// take has p take what the former gives.
func (p *proxy) take(how string, former *proxy, what string) {
	p.w.Helper()
	parts := Parts{Of: former.cmd.Process.Pid}
	former.ask(what, Nothing{}, &parts)
	parts.Of = former.cmd.Process.Pid
	p.ask(how, parts, &Nothing{})
}
