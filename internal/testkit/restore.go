package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Copy is what a control plane held at one moment. It lies in the control plane's directory, and goes with that.
type Copy struct{ dir string }

// SaveCopy copies all objects while the control plane runs; etcd stands still meanwhile.
func (c *ControlPlane) SaveCopy() (_ Copy, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir, err := os.MkdirTemp(c.dir, "copy-")
	if err != nil {
		return Copy{}, fmt.Errorf("saving a copy of %s: %w", c.options.Name, err)
	}
	if err := c.etcd.Pause(); err != nil {
		return Copy{}, fmt.Errorf("saving a copy of %s: %w", c.options.Name, err)
	}
	// It reads as if etcd had been killed now, which etcd is made for.
	err = copyData(dir, c.path("etcd"))
	if err := errors.Join(err, c.etcd.Resume()); err != nil {
		return Copy{}, fmt.Errorf("saving a copy of %s: %w", c.options.Name, err)
	}
	return Copy{dir}, nil
}

// Restore starts the control plane anew from a copy that it saved, at the same addresses and with the same keys, and
// waits until it is ready. First it raises etcd's revision by bump, as a careful operator has it done, so that
// watches and lists don't meet versions that meant something else. Nodes are left as they are.
func (c *ControlPlane) Restore(ctx context.Context, from Copy, bump int) error {
	return c.anew(ctx, "restoring a copy of", func() error { return copyData(c.path("etcd"), from.dir) }, bump)
}

// Empty starts the control plane anew without any object, at the same addresses and with the same keys: another
// cluster. It waits until it is ready. The tokens of ServiceAccounts are not good any more. Nodes are left as they are.
func (c *ControlPlane) Empty(ctx context.Context) error {
	return c.anew(ctx, "emptying", func() error { return nil }, 0)
}

// anew stops all, has the data made, and starts all.
func (c *ControlPlane) anew(ctx context.Context, doing string, data func() error, bump int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	steps := []func() error{
		c.controllers.Kill, c.apiServer.Kill, c.etcd.Kill,
		func() error { return os.RemoveAll(c.path("etcd")) },
		data,
		c.etcd.Start,
		func() error { return c.bump(ctx, bump) },
		c.apiServer.Start, c.controllers.Start,
		func() error { return c.waitReady(ctx) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("%s %s: %w", doing, c.options.Name, err)
		}
	}
	return nil
}

// bump raises etcd's revision by n.
func (c *ControlPlane) bump(ctx context.Context, n int) error {
	put := func(ctx context.Context) error {
		body := bytes.NewReader([]byte(`{"key":"YnVtcA==","value":""}`)) // "bump", which is no API server's
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url("http", etcdPort)+"/v3/kv/put", body)
		if err != nil {
			return err
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", a.Status, text)
		}
		return err
	}
	for i := range n {
		err := error(nil)
		if i == 0 { // It has just been started.
			err = Poll(ctx, 20*time.Millisecond, "etcd", put)
		} else {
			err = put(ctx)
		}
		if err != nil {
			return fmt.Errorf("raising etcd's revision: %w", err)
		}
	}
	return nil
}

// copyData copies a directory of etcd, which may not run meanwhile.
func copyData(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case strings.HasSuffix(rel, ".tmp"):
			return nil // room for the next log, empty
		}
		return copyFile(filepath.Join(to, rel), path)
	})
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
