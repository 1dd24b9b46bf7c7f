package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"fairlead.dev/fairlead/internal/lb"
	"k8s.io/apimachinery/pkg/types"
)

// fileFormat is the first word of a last-good file.
const fileFormat = "fairlead-last-good/1"

// compactAfter is how many bytes may be appended before the file is written anew.
const compactAfter = 1 << 20

// FileHeader is the first line of a last-good file: who wrote it, under which hub.
type FileHeader struct {
	Format   string    `json:"format"`
	Proxy    string    `json:"proxy"`
	Pool     string    `json:"pool"`
	ProxyUID types.UID `json:"proxyUID,omitempty"`
	HubUID   string    `json:"hubUID,omitempty"`
	Boot     string    `json:"boot,omitempty"`
}

// fileLine is each further line: an object that is there, one that is gone, or
// the end of a batch with the versions up to which all before it is everything.
type fileLine struct {
	Resource string          `json:"r,omitempty"`
	Gone     *Key            `json:"gone,omitempty"`
	Object   json.RawMessage `json:"o,omitempty"`
	Through  *Versions       `json:"through,omitempty"`
	// Memory stands beside Through.
	Memory *Memory `json:"memory,omitempty"`
}

// LastGood is what a last-good file holds.
type LastGood struct {
	FileHeader
	Memory  Memory
	Through Versions
	Objects [resources]map[Key]Object
}

// memory is the one that the file holds. That of an older program has it in its header only.
func (g *LastGood) memory() Memory {
	m := g.Memory
	if m.HubUID == "" {
		m.HubUID, m.ProxyUID = g.HubUID, g.ProxyUID
	}
	m.Through = g.Through
	return m
}

// file is the last-good inputs on disk: a snapshot of the objects that the
// Program is built from, and after it what changed since, batch by batch. A
// batch counts once its last line is whole. It holds no Secrets. One goroutine uses it.
type file struct {
	path    string
	header  FileHeader
	memory  Memory
	through Versions
	objects [resources]map[Key]Object
	// unremembered: memory is not written yet; turned: it says something else of what is frozen than the file.
	unremembered, turned bool
	// resumed: it holds what another process wrote.
	resumed bool
	// lacks: something of objects is not written yet. blank: its mark is there, and is; else marked is what this process noted there.
	lacks, blank bool
	marked       Memory
	// found is what was kept last of the checks' findings; nil: nothing by this process.
	found    *[]lb.Probe
	appended int
	size     int
	out      *os.File
}

// newFile returns the file of that header's proxy in a directory. It is written anew at the first write.
func newFile(dir string, h FileHeader) *file {
	h.Format = fileFormat
	f := &file{path: filepath.Join(dir, h.Proxy+".last-good"), header: h}
	for r := range f.objects {
		f.objects[r] = map[Key]Object{}
	}
	return f
}

// resume has the next write keep what another process wrote.
func (f *file) resume(g *LastGood) {
	for r := range g.Objects {
		f.objects[r] = maps.Clone(g.Objects[r])
	}
	f.memory, f.through, f.resumed = g.memory(), g.Through, true
	f.memory.Through = Versions{}
	f.header.HubUID, f.header.ProxyUID = f.memory.HubUID, f.memory.ProxyUID
}

// identify says by what the hub is known, of which the next writes are.
func (f *file) identify(m Memory) {
	m.Through = Versions{}
	if m == f.memory {
		return
	}
	f.turned = f.turned || f.memory.Frozen != m.Frozen
	f.memory, f.unremembered = m, true
	if f.header.HubUID != m.HubUID || f.header.ProxyUID != m.ProxyUID {
		f.header.HubUID, f.header.ProxyUID = m.HubUID, m.ProxyUID
		f.close()
	}
}

// remember writes what identify said. It is no batch, and worth no rewriting of the whole file.
func (f *file) remember() error {
	switch {
	case !f.unremembered:
		return nil
	case f.turned:
		return f.write(nil, f.through, synced)
	}
	return f.write(nil, f.through, buffered)
}

func (f *file) close() {
	if f.out != nil {
		f.out.Close()
		f.out = nil
	}
}

// write adds a batch; synced: it returns once the batch would survive a power cut.
// After an error the whole file is written anew by the next write.
func (f *file) write(changes []Change, through Versions, durable durability) error {
	f.note(changes)
	f.through, f.lacks = through, f.lacks || len(changes) > 0
	if f.out == nil || f.appended > max(compactAfter, f.size) {
		f.close()
		return f.rewrite(through)
	}
	var b bytes.Buffer
	for _, c := range changes {
		if err := encodeChange(&b, c); err != nil {
			return err
		}
	}
	if err := encodeLine(&b, fileLine{Through: &through, Memory: &f.memory}); err != nil {
		return err
	}
	n, err := f.out.Write(b.Bytes())
	f.appended += n
	if err == nil && (durable == synced || !f.blank) {
		err = f.out.Sync()
	}
	if err == nil {
		err = f.blankMark()
	}
	if err != nil {
		f.close()
		return fmt.Errorf("writing last-good file %s: %w", f.path, err)
	}
	f.unremembered, f.turned, f.lacks = false, false, false
	return nil
}

// note takes changes in without writing them.
func (f *file) note(changes []Change) {
	for _, c := range changes {
		if c.Object == nil {
			delete(f.objects[c.Resource], c.Key)
		} else {
			f.objects[c.Resource][c.Key] = c.Object
		}
	}
}

// durability of a write.
type durability int

const (
	buffered durability = iota
	synced
)

// rewrite writes the whole file beside the old one and puts it in its place, synced.
func (f *file) rewrite(through Versions) (err error) {
	defer func() {
		if err != nil {
			f.close()
			err = fmt.Errorf("writing last-good file %s: %w", f.path, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	next := f.path + ".new"
	out, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	f.out = out
	w := &countingWriter{to: bufio.NewWriterSize(out, 1<<16)}
	if err := encodeLine(w, f.header); err != nil {
		return err
	}
	for r := range resources {
		for k, o := range f.objects[r] {
			if err := encodeChange(w, Change{r, k, o}); err != nil {
				return err
			}
		}
	}
	if err := encodeLine(w, fileLine{Through: &through, Memory: &f.memory}); err != nil {
		return err
	}
	if err := w.to.Flush(); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := os.Rename(next, f.path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(f.path)); err != nil {
		return err
	}
	if err := f.blankMark(); err != nil {
		return err
	}
	f.size, f.appended, f.unremembered, f.turned, f.lacks = w.n, 0, false, false, false
	return nil
}

// remove takes the file away: what it says must not be served again.
func (f *file) remove() error {
	f.close()
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing last-good file: %w", err)
	}
	if err := f.removeMark(); err != nil {
		return fmt.Errorf("removing the mark beside the last-good file: %w", err)
	}
	if err := f.forgetFindings(); err != nil {
		return fmt.Errorf("removing what checks found: %w", err)
	}
	if err := syncDir(filepath.Dir(f.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing last-good file: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type countingWriter struct {
	to *bufio.Writer
	n  int
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.n += len(b)
	return w.to.Write(b)
}

func encodeLine(w io.Writer, line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func encodeChange(w io.Writer, c Change) error {
	line := fileLine{Resource: c.Resource.String()}
	if c.Object == nil {
		line.Gone = &c.Key
		return encodeLine(w, line)
	}
	b, err := json.Marshal(c.Object)
	if err != nil {
		return fmt.Errorf("encoding %s %s/%s: %w", c.Resource, c.Key.Namespace, c.Key.Name, err)
	}
	line.Object = b
	return encodeLine(w, line)
}

// ReadLastGood reads the last-good file of a proxy in a directory, and its mark; fs.ErrNotExist where there is no file.
func ReadLastGood(dir, proxy string) (*LastGood, error) {
	path := filepath.Join(dir, proxy+".last-good")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading last-good file: %w", err)
	}
	g, err := parseLastGood(b)
	if err != nil {
		return nil, fmt.Errorf("reading last-good file %s: %w", path, err)
	}
	m, err := readMark(dir, proxy)
	if err != nil {
		return nil, err
	}
	if m != nil {
		g.Memory = *m
	}
	return g, nil
}

// parseLastGood applies whole batches. A torn last batch is left out: it was
// not synced, so nobody was told of it. Damage before a whole batch voids the file.
func parseLastGood(b []byte) (*LastGood, error) {
	g := &LastGood{}
	for r := range g.Objects {
		g.Objects[r] = map[Key]Object{}
	}
	first, rest, whole := bytes.Cut(b, []byte("\n"))
	if !whole || json.Unmarshal(first, &g.FileHeader) != nil || g.Format != fileFormat {
		return nil, fmt.Errorf("the first line is not that of a %s", fileFormat)
	}
	var batch []Change
	var damaged error
	n, batches := 1, 0
	for len(rest) > 0 {
		var line []byte
		line, rest, whole = bytes.Cut(rest, []byte("\n"))
		n++
		if !whole {
			break
		}
		c, end, err := decodeLine(line)
		switch {
		case err != nil:
			damaged = fmt.Errorf("line %d: %w", n, err)
		case end != nil && damaged != nil:
			return nil, damaged
		case end != nil:
			for _, c := range batch {
				if c.Object == nil {
					delete(g.Objects[c.Resource], c.Key)
				} else {
					g.Objects[c.Resource][c.Key] = c.Object
				}
			}
			g.Through, batch = *end.Through, nil
			if end.Memory != nil {
				g.Memory = *end.Memory
			}
			batches++
		default:
			batch = append(batch, c)
		}
	}
	if batches == 0 {
		return nil, errors.New("it holds no whole batch")
	}
	return g, nil
}

// decodeLine returns a change, or the line itself if it ends a batch.
func decodeLine(b []byte) (Change, *fileLine, error) {
	var line fileLine
	if err := json.Unmarshal(b, &line); err != nil {
		return Change{}, nil, err
	}
	if line.Through != nil {
		return Change{}, &line, nil
	}
	for r := range resources {
		if r.String() != line.Resource {
			continue
		}
		if line.Gone != nil {
			return Change{r, *line.Gone, nil}, nil, nil
		}
		o := r.newObject()
		if err := json.Unmarshal(line.Object, o); err != nil {
			return Change{}, nil, fmt.Errorf("decoding %s: %w", r, err)
		}
		return Change{r, keyOf(o), o}, nil, nil
	}
	return Change{}, nil, fmt.Errorf("unknown resource %q", line.Resource)
}
