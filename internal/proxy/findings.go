package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/lb"
)

// Beside the last-good file stands what the checks found Unhealthy last. A process that starts has no results yet, and what
// has none is used; without this a restart while a node is dead would send connections there again. It is a hint: replaced as a
// whole at each change, never synced, and where it can't be read or written there is none.

func findingsPath(dir, proxy string) string { return filepath.Join(dir, proxy+".unhealthy") }

// keepFindings writes down what h finds Unhealthy, if that changed.
func (f *file) keepFindings(h lb.Health) error {
	found := unhealthy(h)
	slices.SortFunc(found, compareProbes)
	if f.found != nil && slices.Equal(*f.found, found) {
		return nil
	}
	f.found = &found // Tried once a change: what is lost is a hint.
	path := findingsPath(filepath.Dir(f.path), f.header.Proxy)
	b, err := json.Marshal(found)
	if err == nil {
		if err = os.WriteFile(path+".new", b, 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) && len(found) == 0 {
		return nil // The directory comes with the last-good file.
	}
	if err != nil {
		return fmt.Errorf("writing what checks found beside the last-good file: %w", err)
	}
	return nil
}

// forgetFindings takes them away.
func (f *file) forgetFindings() error {
	f.found = nil
	err := os.Remove(findingsPath(filepath.Dir(f.path), f.header.Proxy))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readFindings returns what stands there; fs.ErrNotExist where nothing does.
func readFindings(dir, proxy string) ([]lb.Probe, error) {
	b, err := os.ReadFile(findingsPath(dir, proxy))
	if err != nil {
		return nil, err
	}
	var found []lb.Probe
	if err := json.Unmarshal(b, &found); err != nil {
		return nil, fmt.Errorf("reading what checks found: %w", err)
	}
	return found, nil
}

func compareProbes(a, b lb.Probe) int {
	if c := a.Address.Compare(b.Address); c != 0 {
		return c
	}
	return strings.Compare(fmt.Sprintf("%#v", a.Check), fmt.Sprintf("%#v", b.Check))
}
