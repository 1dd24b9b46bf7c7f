package demo

import (
	"context"
	"errors"
	"fmt"
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
		"quota":       {"created", "quota"},
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

func TestStepsBesideAnotherRunWithIt(t *testing.T) {
	t.Parallel()
	told := []string{}
	for _, r := range rounds([]step{{name: "a"}, {name: "b"}, {name: "c", beside: true}, {name: "d", beside: true}, {name: "e"}}) {
		line := fmt.Sprintf("%d %s", r.number, r.name)
		for _, b := range r.beside {
			line += fmt.Sprintf(" | %d %s", b.number, b.name)
		}
		told = append(told, line)
	}
	if want := []string{"1 a", "2 b | 3 c | 4 d", "5 e"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
	alone, err := selectSteps("quota", false)
	if err != nil || len(rounds(alone)) != 2 {
		t.Errorf("--only of a step that is beside others: %v, %v, it must wait for the first", stepNames(alone), err)
	}
}

// A round ends with the failure that was first, in whichever of its steps, and gives up the others.
func TestARoundEndsWithItsFirstFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fails := func(context.Context, *story) (string, error) { return "", broken }
	waits := func(ctx context.Context, _ *story) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	holds := func(context.Context, *story) (string, error) { return "", nil }
	never := func(context.Context, *story) (string, error) {
		t.Error("the step after one that failed was run")
		return "", nil
	}
	for name, steps := range map[string][]step{
		"the step":          {{name: "x", run: fails}, {name: "y", run: waits, beside: true}},
		"the one beside it": {{name: "y", run: waits}, {name: "z", run: holds, beside: true}, {name: "x", run: fails, beside: true}, {name: "n", run: never, beside: true}},
	} {
		s := &common{say: func(string, ...any) {}}
		err := s.tell(t.Context(), rounds(steps)[0])
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "step x") {
			t.Errorf("%s fails: %v", name, err)
		}
	}
}
