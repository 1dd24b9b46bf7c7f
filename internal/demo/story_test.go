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
		"":            slices.DeleteFunc(Steps(), func(s string) bool { return s == "ipv6" || s == "client-address" }),
		"created":     {"created"},
		"node-killed": {"created", "node-killed"},
	} {
		got, err := selectSteps(only, false)
		if err != nil || !slices.Equal(stepNames(got), want) {
			t.Errorf("--only %q: %v, %v, want %v", only, stepNames(got), err, want)
		}
	}
	if _, err := selectSteps("typo", false); err == nil || !strings.Contains(err.Error(), "node-killed") {
		t.Errorf("a step that doesn't exist: %v", err)
	}
	if got, err := selectSteps("", true); err != nil || !slices.Equal(stepNames(got), Steps()) {
		t.Errorf("in namespaces: %v, %v", stepNames(got), err)
	}
	if _, err := selectSteps("ipv6", false); err == nil || !strings.Contains(err.Error(), "network namespaces") {
		t.Errorf("a step that can't be told on loopback: %v", err)
	}
}
