package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
)

// profileSeconds is how much of a measurement is profiled, from its beginning.
const profileSeconds = 6

// startProfiles begins to take a CPU profile of each of our processes, if the user wants any. The
// function returned waits for them.
func (b *bench) startProfiles(part string) func() error {
	if b.options.profile == "" {
		return func() error { return nil }
	}
	targets := map[string]netip.AddrPort{"manager": b.Manager.Debug, "agent": b.tenant.Agent.Debug}
	for _, p := range b.Proxies {
		targets[p.Name] = p.Debug
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for name, address := range targets {
		all.Go(func() {
			err := profile(address, filepath.Join(b.options.profile, part+"-"+name+".pprof"))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	return func() error {
		all.Wait()
		return errors.Join(errs...)
	}
}

func profile(address netip.AddrPort, file string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, profileSeconds)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profiling: GET %s: %s", url, resp.Status)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", file, err), f.Close())
	}
	return f.Close()
}
