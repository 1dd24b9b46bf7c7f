package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"fairlead.dev/fairlead/internal/testkit"
)

// command is a subcommand of fairlead that a person has started.
type command struct {
	cmd   *exec.Cmd
	out   *io.PipeWriter
	done  chan struct{} // closed: it has ended, and err is how
	err   error
	lines sync.WaitGroup

	mu   sync.Mutex
	said []string
}

func (s *story) command(ctx context.Context, args ...string) (*command, error) {
	in, out := io.Pipe()
	c := &command{cmd: s.Command(ctx, args...), out: out, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.lines.Go(func() {
		for scan := bufio.NewScanner(in); scan.Scan(); {
			c.mu.Lock()
			c.said = append(c.said, scan.Text())
			c.mu.Unlock()
		}
	})
	if err := c.cmd.Start(); err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("starting fairlead %s: %w", strings.Join(args, " "), err)
	}
	go func() {
		c.err = c.cmd.Wait()
		_ = out.Close()
		c.lines.Wait()
		close(c.done)
	}()
	return c, nil
}

// end ends it where it still runs, and waits for that.
func (c *command) end() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.done
}

func (c *command) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *command) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.said, "\n")
}

// await waits until it has ended well.
func (c *command) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	select {
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("fairlead %s has not ended: %w: %s", c.cmd.Args[1], context.Cause(ctx), c.text())
	}
	if c.err != nil {
		return fmt.Errorf("fairlead %s: %w: %s", c.cmd.Args[1], c.err, c.text())
	}
	return nil
}

// says waits until it has printed a line with that in it, and returns the last one.
func (c *command) says(ctx context.Context, what string) (line string, err error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	err = testkit.Poll(ctx, look, fmt.Sprintf("fairlead %s to say %q", c.cmd.Args[1], what), func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range slices.Backward(c.said) {
			if strings.Contains(l, what) {
				line = l
				return nil
			}
		}
		return fmt.Errorf("it says %q", c.said)
	})
	return line, err
}
