package upgrade

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
)

// files sees each version serve, while the hub is away, what the other's last-good file says.
func (s *site) files(ctx context.Context) {
	s.t.Helper()
	p, way := s.Proxies[1], s.Proxies[1].Way(s.web, webPort)
	for _, binary := range []string{s.now, s.before} {
		o, err := s.proxy(ctx, p)
		s.must(err)
		s.must(s.Hub.StopAPIServer(ctx))
		s.must(p.Stop(ctx))
		s.must(s.refuses(ctx, p, s.web))
		s.must(p.Replace(ctx, binary))
		began := time.Now()
		s.must(s.poll(ctx, "an answer while the hub is away", func(ctx context.Context) error {
			_, err := way.Ask(ctx, "/")
			return err
		}))
		s.t.Logf("version %s serves what the other filed, %s after its start", s.word(binary), time.Since(began).Round(time.Millisecond))
		s.must(s.Hub.StartAPIServer(ctx))
		s.must(s.next(ctx, p, o.Status.Boot))
		s.must(s.filed(ctx, p, o.Status.Boot))
	}
}

// filed waits until the last-good file is of a process after that boot.
func (s *site) filed(ctx context.Context, p *fleet.Proxy, boot string) error {
	return s.poll(ctx, "the file of "+p.Name+" to be written anew", func(context.Context) error {
		f, err := os.Open(filepath.Join(s.Dir, p.Name, p.Name+".last-good"))
		if err != nil {
			return err
		}
		defer f.Close()
		head, err := bufio.NewReader(f).ReadString('\n')
		if err == nil && strings.Contains(head, boot) {
			err = fmt.Errorf("it is of boot %s still", boot)
		}
		return err
	})
}
