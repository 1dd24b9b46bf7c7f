package wire

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type message struct {
	Text  string
	Files int
}

func pair(t *testing.T, dir string) (a, b *Conn) {
	t.Helper()
	l, err := Listen(dir, "x.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if a, err = Dial(context.Background(), dir, "x.sock"); err != nil {
		t.Fatal(err)
	}
	b = <-accepted
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestMessagesAndTheirFilesArriveInOrder(t *testing.T) {
	// A path that is longer than a socket's may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a, b := pair(t, dir)
	const count = 30
	go func() {
		for i := range count {
			var fds []int
			for range i * 7 % MaxFiles {
				r, w, err := os.Pipe()
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Close()
				fmt.Fprint(w, i)
				w.Close()
				fds = append(fds, int(r.Fd()))
			}
			if err := a.Send(message{strings.Repeat("x", i*10_000), len(fds)}, fds...); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range count {
		var m message
		files, err := b.Receive(&m, func() int { return m.Files })
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Text) != i*10_000 || len(files) != i*7%MaxFiles {
			t.Fatalf("message %d has %d bytes and %d files", i, len(m.Text), len(files))
		}
		for _, fd := range files {
			f := os.NewFile(uintptr(fd), "pipe")
			var n int
			if _, err := fmt.Fscan(f, &n); err != nil || n != i {
				t.Fatalf("file of message %d says %d, %v", i, n, err)
			}
			f.Close()
		}
	}
}

func TestSocketIsItsUsersOnly(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir, "x.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := os.Stat(filepath.Join(dir, "x.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestListeningTakesTheNameOver(t *testing.T) {
	dir := t.TempDir()
	first, err := Listen(dir, "x.sock")
	if err != nil {
		t.Fatal(err)
	}
	pair(t, dir)
	first.Close()
	if _, err := os.Stat(filepath.Join(dir, "x.sock")); err != nil {
		t.Errorf("the former took the latter's name away: %v", err)
	}
}

func TestEndOfThePeerIsAnError(t *testing.T) {
	a, b := pair(t, t.TempDir())
	a.Close()
	var m message
	if _, err := b.Receive(&m, func() int { return 0 }); err == nil {
		t.Error("no error")
	}
}
