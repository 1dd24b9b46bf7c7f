package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Printed returns a manifest of examples/seed as a proposal prints it, and as it is once its diff, where it has one, is applied. root is
// the module's.
func Printed(root, name string) (printed, repaired string, err error) {
	dir := filepath.Join(root, "examples", "seed")
	b, err := os.ReadFile(filepath.Join(dir, name+".yaml"))
	if err != nil {
		return "", "", err
	}
	diff, err := os.ReadFile(filepath.Join(dir, name+".diff"))
	if os.IsNotExist(err) {
		return string(b), string(b), nil
	}
	if err != nil {
		return "", "", err
	}
	if repaired, err = patch(string(b), string(diff)); err != nil {
		return "", "", fmt.Errorf("%s.diff: %w", name, err)
	}
	return string(b), repaired, nil
}

// patch applies a unified diff. Its lines must stand in text where their hunk says: nothing is searched for.
func patch(text, diff string) (string, error) {
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[0], "--- ") || !strings.HasPrefix(lines[1], "+++ ") || !strings.HasPrefix(lines[2], "@@ ") {
		return "", fmt.Errorf("not a unified diff:\n%s", diff)
	}
	rest, at := strings.SplitAfter(text, "\n"), 1
	var out strings.Builder
	for _, l := range lines[2:] {
		if strings.HasPrefix(l, "@@ ") {
			var from int
			if _, err := fmt.Sscanf(l, "@@ -%d", &from); err != nil || from < at || from-at > len(rest) {
				return "", fmt.Errorf("a hunk that begins nowhere: %q", l)
			}
			out.WriteString(strings.Join(rest[:from-at], ""))
			rest, at = rest[from-at:], from
			continue
		}
		if l == "" || !strings.ContainsRune(" -+", rune(l[0])) {
			return "", fmt.Errorf("no line of a diff: %q", l)
		}
		line := l[1:] + "\n"
		if l[0] == '+' {
			out.WriteString(line)
			continue
		}
		if len(rest) == 0 || rest[0] != line {
			return "", fmt.Errorf("line %d isn't %q", at, l[1:])
		}
		if l[0] == ' ' {
			out.WriteString(line)
		}
		rest, at = rest[1:], at+1
	}
	out.WriteString(strings.Join(rest, ""))
	return out.String(), nil
}
