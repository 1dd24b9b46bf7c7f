package demo

import (
	"slices"
	"strings"
	"testing"
)

func stepNames(ss []step) []string {
	names := []string{}
	for _, s := range ss {
		names = append(names, s.name)
	}
	return names
}

func TestOnlyRunsTheFirstStepAndThatOne(t *testing.T) {
	t.Parallel()
	for only, want := range map[string][]string{
		"":            Steps(),
		"created":     {"created"},
		"node-killed": {"created", "node-killed"},
	} {
		got, err := selectSteps(only)
		if err != nil || !slices.Equal(stepNames(got), want) {
			t.Errorf("--only %q: %v, %v, want %v", only, stepNames(got), err, want)
		}
	}
	if _, err := selectSteps("typo"); err == nil || !strings.Contains(err.Error(), "node-killed") {
		t.Errorf("a step that doesn't exist: %v", err)
	}
}
