package cli

import (
	"strings"
	"testing"
	"time"
)

// What tenants write may hold what a terminal obeys: it is shown, not sent.
func TestNothingThatATenantWritesReachesATerminalAsACommand(t *testing.T) {
	const odd = "node-1\x1b[2J\x1b]0;title\a\u202eexe\r\n\u0085\u200b\x00 узел ☃"
	reports := map[string]func(*strings.Builder) error{
		"explain": func(b *strings.Builder) error {
			return (&Explanation{Subject: odd, Rungs: []Rung{{Name: odd, State: Broken, Reason: "R", Message: odd, Fix: odd, Evidence: []Evidence{{State: Broken, Text: odd}}}}}).WriteText(b)
		},
		"check": func(b *strings.Builder) error {
			return (&Report{Checks: []Check{{Area: "agents", Object: odd, State: Warning, Message: odd, Fix: odd}}}).WriteText(b)
		},
		"status": func(b *strings.Builder) error {
			return (&Overview{Problems: []Problem{{Object: odd, Reason: odd, Message: odd}}}).WriteText(b, time.Now(), Wide)
		},
	}
	for name, write := range reports {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\a\r\x00\u0085\u202e\u200b") || !strings.Contains(b.String(), `exe\r\n\u0085`) || !strings.Contains(b.String(), `node-1\x1b[2J`) || !strings.Contains(b.String(), "узел ☃") {
			t.Errorf("%s prints %q", name, b.String())
		}
	}
}
