package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// short is a duration as kubectl prints it.
func short(d time.Duration) string { return duration.HumanDuration(d) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Kinds that can be asked about.
const (
	kindService      = "Service"
	kindLoadBalancer = "LoadBalancer"
	kindNode         = "Node"
	kindAddress      = "Address"
	kindProxy        = "Proxy"
)

// verdict is the last line of an explanation.
type verdict struct{ well, waiting, broken string }

func verdictOf(kind string) verdict {
	switch kind {
	case kindNode:
		return verdict{"It gets new connections", "It gets no new connection now", "It gets no new connection, or not all that it should"}
	case kindProxy:
		return verdict{"It serves what the hub says", "It doesn't serve what the hub says yet", "It doesn't serve what the hub says"}
	}
	return verdict{"Served", "Not served yet", "Not served as wanted"}
}

// WriteText prints an explanation for people, one rung a line.
func (e *Explanation) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s", e.Subject)
	width := 0
	for _, r := range e.Rungs {
		width = max(width, utf8.RuneCountInString(r.Name))
	}
	for _, r := range e.Rungs {
		text := r.Message
		if r.State != OK && r.Reason != "" {
			text = r.Reason
			if r.Message != "" {
				text += ": " + r.Message
			}
		}
		p.line("%s %-*s  %s%s", r.State.Sign(), width, r.Name, text, e.since(r.State, r.Since))
		for _, ev := range r.Evidence {
			p.line("  %-*s  %s %s%s", width, "", ev.State.Sign(), ev.Text, e.since(ev.State, ev.Since))
		}
		if r.Fix != "" {
			p.line("  %-*s  → %s", width, "", r.Fix)
		}
	}
	e.writeEvents(p)
	words := verdictOf(e.Kind)
	switch first := e.First(); {
	case first == nil:
		p.line("%s.", words.well)
	case first.State == Waiting:
		p.line("%s: waiting at %s.", words.waiting, first.Name)
	default:
		p.line("%s: broken at %s.", words.broken, first.Name)
	}
	return p.err
}

func (e *Explanation) since(s State, t *metav1.Time) string {
	if s == OK || t == nil || t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (for %s)", short(max(e.Now.Sub(t.Time), 0)))
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, trimRight(plain(fmt.Sprintf(format, args...))))
	}
}

// plain shows what a terminal would obey, or would not show: much of what is printed was written by tenants.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

func trimRight(s string) string {
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}
