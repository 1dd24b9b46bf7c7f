package resolve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// saveAfter is how long changes are collected for one write of the file.
const saveAfter = time.Second

// readFile returns nothing where there is no file.
func readFile(path string) (map[string][]netip.Addr, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out map[string][]netip.Addr
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return out, nil
}

// writeFile replaces the file as a whole.
func writeFile(path string, names map[string][]netip.Addr) error {
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// save has the file written in a moment; r.mu is held.
func (r *Resolver) save() {
	if r.o.File == "" || r.saving {
		return
	}
	r.saving = true
	time.AfterFunc(saveAfter, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.saving && !r.closed {
			r.write()
		}
	})
}

// write writes the file; r.mu is held.
func (r *Resolver) write() {
	r.saving = false
	if err := writeFile(r.o.File, r.known()); err != nil {
		r.o.Logger.Warn("what names stand for can't be remembered", "err", err)
	}
}
