package testkit

import "testing"

func TestPatch(t *testing.T) {
	const text = "a\nb\nc\nd\ne\nf\n"
	for name, c := range map[string]struct{ diff, want string }{
		"two hunks":       {"--- x\n+++ x\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -5,2 +5,3 @@\n e\n+E\n f\n", "A\nb\nc\nd\ne\nE\nf\n"},
		"another line":    {"--- x\n+++ x\n@@ -1,1 +1,1 @@\n-b\n+A\n", ""},
		"beyond the end":  {"--- x\n+++ x\n@@ -9,1 +9,1 @@\n-b\n+A\n", ""},
		"a hunk too late": {"--- x\n+++ x\n@@ -2,1 +2,1 @@\n-b\n@@ -1,1 +1,1 @@\n-a\n", ""},
		"no diff":         {"a\nb\nc\nd\n", ""},
		"no line of one":  {"--- x\n+++ x\n@@ -1,1 +1,1 @@\n*a\n", ""},
	} {
		got, err := patch(text, c.diff)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
