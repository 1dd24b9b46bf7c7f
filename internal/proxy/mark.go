package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Beside the last-good file stands its mark, a block that was taken while there was room, and that is written in place: that a
// full disk allows. It is blank, or holds a Memory that counts instead of the file's. So a proxy whose disk is full can note that
// its hub has changed before it speaks to the one that answers: else the next process would know that one again by what was
// written there.

// markSize is that of a block; what is noted fits in its first sector, which a power cut leaves whole.
const markSize = 4096

func markPath(dir, proxy string) string { return filepath.Join(dir, proxy+".mark") }

// mark notes what identify said, synced, in place of the file. The file may be of before that, so the next process must not insist on
// what it has if anything that was served changed since. Where no file is, the next process knows no hub, and nothing needs noting.
func (f *file) mark() error {
	m := f.memory
	m.Stale = m.Stale || f.lacks
	if f.marked == m {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	err = f.overwriteMark(b)
	if errors.Is(err, fs.ErrNotExist) {
		if _, none := os.Stat(f.path); errors.Is(none, fs.ErrNotExist) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("writing the mark beside the last-good file: %w", err)
	}
	f.marked = m
	return nil
}

// blankMark has the file count, which is synced, and makes the mark if there is none.
func (f *file) blankMark() error {
	if f.blank {
		return nil
	}
	err := f.overwriteMark(nil)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoMark) {
		err = f.makeMark()
	}
	if err != nil {
		return fmt.Errorf("writing the mark beside the last-good file: %w", err)
	}
	f.blank, f.marked = true, Memory{}
	return nil
}

// errNoMark: what stands at its path is no mark, or not all of one.
var errNoMark = errors.New("it hasn't the size of one")

// overwriteMark writes text into the mark that is there.
func (f *file) overwriteMark(text []byte) (err error) {
	out, err := os.OpenFile(markPath(filepath.Dir(f.path), f.header.Proxy), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if s, err := out.Stat(); err != nil {
		return err
	} else if s.Size() != markSize || len(text) > markSize {
		return errNoMark
	}
	f.blank, f.marked = false, Memory{} // It is so until all is written.
	if _, err := out.Write(padded(text)); err != nil {
		return err
	}
	return out.Sync()
}

func padded(text []byte) []byte {
	return append(text, bytes.Repeat([]byte(" "), markSize-len(text))...)
}

// makeMark makes a blank one.
func (f *file) makeMark() error {
	path := markPath(filepath.Dir(f.path), f.header.Proxy)
	out, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(padded(nil))
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// removeMark takes it away; the file is gone.
func (f *file) removeMark() error {
	f.blank, f.marked = false, Memory{}
	err := os.Remove(markPath(filepath.Dir(f.path), f.header.Proxy))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readMark returns what a mark holds; nil: it is blank, or there is none.
func readMark(dir, proxy string) (*Memory, error) {
	path := markPath(dir, proxy)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the mark beside the last-good file: %w", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil
	}
	m := &Memory{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("reading %s, which stands beside the last-good file: %w", path, err)
	}
	return m, nil
}
