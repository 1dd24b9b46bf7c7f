package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stopped tells whether every thread of a process is stopped. SIGSTOP is taken by one
// thread, which stops the others; while that one waits for a processor, the others run on.
func stopped(pid int) error {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread ended meanwhile
		}
		// After the command's name, which may hold anything, comes the state.
		if _, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " "); !strings.HasPrefix(rest, "T") {
			return fmt.Errorf("thread %s has state %.1s", filepath.Base(filepath.Dir(f)), rest)
		}
	}
	return nil
}
