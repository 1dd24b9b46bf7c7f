package api_test

import (
	"fmt"
	"strings"
)

// hunkLine is a line of a unified diff, within its hunks.
type hunkLine struct {
	op   byte // ' ', '-' or '+'
	text string
}

// parseDiff reads the lines of a diff of one hunk that begins at line 1, as all of ours are.
func parseDiff(diff string) ([]hunkLine, error) {
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[0], "--- ") || !strings.HasPrefix(lines[1], "+++ ") || !strings.HasPrefix(lines[2], "@@ -1,") {
		return nil, fmt.Errorf("not a unified diff from line 1:\n%s", diff)
	}
	var out []hunkLine
	for _, l := range lines[3:] {
		if l == "" || !strings.ContainsRune(" -+", rune(l[0])) {
			return nil, fmt.Errorf("a second hunk, or no line of a diff: %q", l)
		}
		out = append(out, hunkLine{op: l[0], text: l[1:]})
	}
	return out, nil
}

// applyDiff returns text with the diff applied. Context that differs is an error.
func applyDiff(text string, diff []hunkLine) (string, error) {
	rest := strings.SplitAfter(text, "\n")
	var out strings.Builder
	for _, l := range diff {
		if l.op == '+' {
			out.WriteString(l.text + "\n")
			continue
		}
		if len(rest) == 0 || rest[0] != l.text+"\n" {
			return "", fmt.Errorf("the diff wants the line %q", l.text)
		}
		if l.op == ' ' {
			out.WriteString(rest[0])
		}
		rest = rest[1:]
	}
	out.WriteString(strings.Join(rest, ""))
	return out.String(), nil
}
