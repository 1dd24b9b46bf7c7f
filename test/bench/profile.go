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

	"k8s.io/client-go/rest"
)

// profileSeconds is how much of a measurement is profiled, from its beginning.
const profileSeconds = 20

// startProfiles begins to take a CPU profile of each of our processes and of the API servers, if the user wants any. The
// function returned waits for them.
func (b *bench) startProfiles(part string) func() error {
	if b.options.profile == "" {
		return func() error { return nil }
	}
	type target struct {
		client *http.Client
		host   string
	}
	plain := func(a netip.AddrPort) target { return target{http.DefaultClient, "http://" + a.String()} }
	targets := map[string]target{"manager": plain(b.Manager.Debug), "agent": plain(b.tenant.Agent.Debug)}
	for _, p := range b.Proxies {
		targets[p.Name] = plain(p.Debug)
	}
	for _, p := range b.planes() {
		client, err := rest.HTTPClientFor(p.RESTConfig())
		if err != nil {
			return func() error { return err }
		}
		targets[p.Name()+"-apiserver"] = target{client, p.RESTConfig().Host}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for name, t := range targets {
		all.Go(func() {
			err := keep(t.client, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", t.host, profileSeconds), filepath.Join(b.options.profile, part+"-"+name+".pprof"))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	// What the hub's requests waited for, its metrics say.
	hub := targets[b.Hub.Name()+"-apiserver"]
	metrics := func(when string) error {
		return keep(hub.client, hub.host+"/metrics", filepath.Join(b.options.profile, part+"-"+b.Hub.Name()+"-apiserver."+when+".metrics"))
	}
	before := metrics("before")
	return func() error {
		after := metrics("after")
		all.Wait()
		return errors.Join(append(errs, before, after)...)
	}
}

// keep writes what a URL serves to a file.
func keep(client *http.Client, url, file string) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s: %s", url, resp.Status)
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
