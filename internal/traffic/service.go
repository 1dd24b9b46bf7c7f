package traffic

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Service is what is measured.
type Service struct {
	// Name in reports.
	Name string
	// Ways to reach it, asked in turn: one for each proxy.
	Ways []Way
	// Rate is the requests a second over all Ways together that a window must show.
	Rate int
	// Held is the number of connections that are held open during a window.
	Held int
	// Allow returns "" if the Pod that answered a request begun at that time may do so,
	// else why not. It is called when a window is judged. Nil allows every Pod.
	Allow func(Identity, time.Time) string
	// Dial opens the connections; nil: from this host, plainly.
	Dial Dial
}

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

func (s *Service) dial(w Way) Dial {
	if w.Dial == nil && s.Dial != nil {
		return s.Dial
	}
	return w.dial()
}

// Way is one address of a Service.
type Way struct {
	// Name in reports: the proxy's.
	Name    string
	Address netip.AddrPort
	// Dial opens the connections; nil: as the Service says.
	Dial Dial
}

func (w *Way) dial() Dial {
	if w.Dial != nil {
		return w.Dial
	}
	return plainly
}

// Ask is the function Ask by this way.
func (w *Way) Ask(ctx context.Context, path string) (Answer, error) {
	return ask(ctx, w.dial(), w.Address, path)
}

// Identity is who answered.
type Identity struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node"`
}

// Answer is what a hollow Pod says.
type Answer struct {
	Identity
	// Client is the address and port that the Pod saw.
	Client string `json:"client"`
	// Path that was asked for; of a datagram, what was in it.
	Path string `json:"path"`
}

// Failure is why a request or a held connection counts as failed.
type Failure string

const (
	// FailureRefused: nobody listened.
	FailureRefused Failure = "refused"
	// FailureTimeout: no whole answer in time.
	FailureTimeout Failure = "timeout"
	// FailureReset: the connection was reset.
	FailureReset Failure = "reset"
	// FailureClosed: the connection ended before the answer did.
	FailureClosed Failure = "closed early"
	// FailureAnswer: something came that is no answer of a Pod.
	FailureAnswer Failure = "not an answer"
	// FailureWrongPod: a Pod answered that may not.
	FailureWrongPod Failure = "wrong Pod"
	// FailureOther: anything else, such as no free port on this side.
	FailureOther Failure = "other"
)
