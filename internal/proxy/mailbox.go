package proxy

import "sync"

// post is what the loop hands to the reporter: the newest state, and what
// happened since the last post was taken.
type post struct {
	state *served
	// changes of the inputs, for the last-good file.
	changes []Change
	// removal: something is no longer served, so the file must not bring it back.
	removal bool
	// urgent: something served is new or different; lazy: the inputs moved, and nobody waits for it.
	urgent, lazy bool
	// health: verdicts may differ.
	health bool
}

func (p *post) merge(q post) {
	p.state = q.state
	p.changes = append(p.changes, q.changes...)
	p.removal = p.removal || q.removal
	p.urgent = p.urgent || q.urgent
	p.lazy = p.lazy || q.lazy
	p.health = p.health || q.health
}

// mailbox holds posts until the reporter takes them as one. The loop never waits for it.
type mailbox struct {
	mu   sync.Mutex
	held *post
	wake chan struct{}
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(p post) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = &post{}
	}
	m.held.merge(p)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns nil when there is nothing.
func (m *mailbox) take() *post {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.held
	m.held = nil
	return p
}
