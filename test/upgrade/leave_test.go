package upgrade

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leave sees edge-2 say goodbye: once while no process of it runs and an address waits for it, once while it serves.
func (s *site) leave() {
	s.t.Helper()
	ctx, p := s.t.Context(), s.Proxies[1]
	name, err := s.create(ctx)
	s.must(err)
	a := s.mustServe(ctx, name)
	s.must(p.Stop(ctx))
	s.must(s.remove(ctx, name))
	s.must(s.poll(ctx, s.Proxies[0].Name+" to say that the address is gone", func(ctx context.Context) error {
		line, reports := &v1alpha1.Address{}, &v1alpha1.ProxyReportList{}
		if err := s.Hub.API.Get(ctx, client.ObjectKey{Name: a.String()}, line); err != nil {
			return err
		}
		if err := s.Hub.API.List(ctx, reports, client.InNamespace(s.tenant.Name())); err != nil {
			return err
		}
		for _, r := range reports.Items {
			if r.Name == s.Proxies[0].Name && slices.ContainsFunc(r.Addresses, func(e v1alpha1.ReportedAddress) bool {
				return e.Name == a.String() && e.State == v1alpha1.ReportedGone
			}) {
				return nil
			}
		}
		return fmt.Errorf("%d reports; it is %s", len(reports.Items), line.Spec.Phase)
	}))
	began := time.Now()
	s.must(s.goodbye(ctx, p, time.Second))
	s.must(s.hasLeft(ctx, p))
	left := time.Now()
	s.must(s.freed(ctx, a))
	s.t.Logf("%s left within %s, and the address that waited for it was free %s after", p.Name, left.Sub(began).Round(time.Millisecond), time.Since(left).Round(time.Millisecond))

	// Started again it registers anew, and serves.
	o, err := s.proxy(ctx, p)
	s.must(err)
	s.must(p.Start())
	s.must(s.next(ctx, p, o.Status.Boot))
	s.must(s.poll(ctx, "an answer through "+p.Name, func(ctx context.Context) error {
		way := p.Way(s.web, webPort)
		_, err := way.Ask(ctx, "/")
		return err
	}))

	// It leaves while it serves. What is open runs on for as long as was said.
	way := p.Way(s.web, webPort)
	dial := way.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	open, err := dial(ctx, "tcp", way.Address.String())
	s.must(err)
	defer open.Close()
	p.LetGo()
	process := p.Process
	began = time.Now()
	const timeout = 3 * time.Second
	s.must(s.goodbye(ctx, p, timeout))
	if took := time.Since(began); took < timeout {
		s.t.Errorf("%s left after %s, though a connection was open and had %s", p.Name, took, timeout)
	}
	s.must(process.Wait(ctx))
	s.must(s.hasLeft(ctx, p))
	s.must(open.SetDeadline(time.Now().Add(2 * time.Second)))
	if _, err := open.Write([]byte("GET / HTTP/1.1\r\nHost: web\r\n\r\n")); err == nil {
		_, err = open.Read(make([]byte, 1))
		if err == nil {
			s.t.Errorf("a connection is answered that was open when %s left", p.Name)
		}
	}
}

// goodbye runs `fairlead proxy leave` on the proxy's host.
func (s *site) goodbye(ctx context.Context, p *fleet.Proxy, timeout time.Duration) error {
	args := []string{"proxy", "leave", "--timeout=" + timeout.String()}
	for _, flag := range p.Process.Command().Args {
		for _, same := range []string{"--name=", "--kubeconfig=", "--state-dir="} {
			if len(flag) > len(same) && flag[:len(same)] == same {
				args = append(args, flag)
			}
		}
	}
	return s.run(ctx, p, "leave", args...)
}

// run runs a command of this version on a proxy's host, and waits for its end.
func (s *site) run(ctx context.Context, p *fleet.Proxy, name string, args ...string) error {
	c := testkit.Command{Name: name, Path: s.now, Args: args, Host: p.Process.Command().Host, Log: filepath.Join(s.Dir, name+".log")}
	process, err := testkit.StartProcess(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return process.Wait(ctx)
}

// hasLeft: the hub knows, and nothing is served.
func (s *site) hasLeft(ctx context.Context, p *fleet.Proxy) error {
	o, err := s.proxy(ctx, p)
	if err != nil {
		return err
	}
	if o.Status.Phase != v1alpha1.ProxyLeft {
		return fmt.Errorf("the phase of %s is %q", p.Name, o.Status.Phase)
	}
	return s.refuses(ctx, p, s.web)
}
