package install_test

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestContainerfile runs the command that the image is built by, in what git has of this tree and nothing else, and looks at what
// the image is made of.
func TestContainerfile(t *testing.T) {
	stages := strings.Split("\n"+string(readFile(t, "Containerfile")), "\nFROM ")[1:]
	if len(stages) != 2 {
		t.Fatalf("it has %d stages, want one that builds and one that runs", len(stages))
	}
	dir := t.TempDir()
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "fairlead")
	sh(t, root, `mkdir "$1" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$1"`, src)
	runs := regexp.MustCompile(`(?m)^RUN (.+)$`).FindAllStringSubmatch(stages[0], -1)
	if len(runs) == 0 {
		t.Fatal("nothing is built")
	}
	for _, run := range runs {
		sh(t, src, strings.ReplaceAll(run[1], "/fairlead ", out+" "))
	}
	binary, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Error("the binary needs a loader, which the image doesn't have")
		}
	}
	if said, err := exec.CommandContext(t.Context(), out, "--version").Output(); err != nil || !strings.Contains(string(said), "fairlead") {
		t.Errorf("it says %q, %v", said, err)
	}
	for _, line := range []string{"scratch\n", "COPY --from=build /fairlead /fairlead\n", `ENTRYPOINT ["/fairlead"]` + "\n"} {
		if !strings.Contains(stages[1], line) {
			t.Errorf("the image lacks %q", line)
		}
	}
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(stages[1]) {
		t.Error("it doesn't run as a user other than root that a kubelet can tell by its number")
	}
}

func sh(t *testing.T, dir, script string, arguments ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", append([]string{"-ec", script, "sh"}, arguments...)...)
	c.Dir = dir
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, said)
	}
}
