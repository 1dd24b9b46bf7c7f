package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// What config/ starts our commands with is what they understand.
func TestConfigStartsWhatThereIs(t *testing.T) {
	commands := map[string][]string{}
	for file, container := range map[string]string{"manager/manager.yaml": "manager", "agent/agent.yaml": "agent", "proxy/proxy.yaml": "proxy"} {
		commands[file] = argumentsOf(t, file, container)
	}
	units, err := filepath.Glob("../../config/systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("%q %v", units, err)
	}
	for _, unit := range units {
		_, line, ok := strings.Cut(read(t, unit), "\nExecStart=")
		if !ok {
			t.Fatalf("%s starts nothing", unit)
		}
		line, _, _ = strings.Cut(line, "\n")
		words := strings.Fields(line)
		if filepath.Base(words[0]) != "fairlead" {
			t.Errorf("%s starts %s", unit, words[0])
		}
		commands[unit] = words[1:]
	}
	for where, arguments := range commands {
		command, rest, err := newRootCommand().Find(arguments)
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err == nil {
			err = command.ValidateRequiredFlags()
		}
		if err == nil {
			err = command.ValidateArgs(command.Flags().Args())
		}
		if err != nil || !command.HasParent() {
			t.Errorf("%s: fairlead %s: %v", where, strings.Join(arguments, " "), err)
		}
	}
}

// argumentsOf are a container's arguments, with its environment put in.
func argumentsOf(t *testing.T, file, container string) []string {
	t.Helper()
	for _, document := range strings.Split(read(t, filepath.Join("../../config", file)), "\n---\n") {
		workload := struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}{}
		if err := yaml.Unmarshal([]byte(document), &workload); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range workload.Spec.Template.Spec.Containers {
			if c.Name != container {
				continue
			}
			known := map[string]bool{}
			for _, e := range c.Env {
				known[e.Name] = true
			}
			for _, m := range regexp.MustCompile(`\$\((\w+)\)`).FindAllStringSubmatch(strings.Join(c.Args, " "), -1) {
				if !known[m[1]] {
					t.Errorf("%s: nothing sets $(%s)", file, m[1])
				}
			}
			return c.Args
		}
	}
	t.Fatalf("%s: no container %s", file, container)
	return nil
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
