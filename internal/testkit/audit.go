package testkit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Write is one write request that the API server answered.
type Write struct {
	At         time.Time
	User       string
	UserAgent  string
	Verb       string // create, update, patch, delete, deletecollection
	Group      string
	Resource   string // plural, with the subresource: pods/status
	Namespace  string
	Name       string
	StatusCode int
}

// AuditLog is the path of the audit log; it exists with Options.Audit only.
func (c *ControlPlane) AuditLog() string { return c.path("audit.log") }

// Writes reads the audit log from a byte offset and returns what follows it, with the
// next offset: take the offset before a measurement and read from it afterwards. A
// write is in the log before its answer is sent.
func (c *ControlPlane) Writes(offset int64) ([]Write, int64, error) {
	f, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, offset, fmt.Errorf("reading audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, offset, fmt.Errorf("reading audit log: %w", err)
	}
	return readWrites(f, offset)
}

func readWrites(r io.Reader, offset int64) ([]Write, int64, error) {
	writes := []Write{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return writes, offset, nil // half a line is for the next time
		}
		if err != nil {
			return writes, offset, fmt.Errorf("reading audit log: %w", err)
		}
		w, err := parseWrite(line)
		if err != nil {
			return writes, offset, fmt.Errorf("reading audit log: %w", err)
		}
		offset += int64(len(line))
		writes = append(writes, w)
	}
}

func parseWrite(line []byte) (Write, error) {
	var e struct {
		Verb      string
		User      struct{ Username string }
		UserAgent string
		ObjectRef struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		Response  struct{ Code int } `json:"responseStatus"`
		At        time.Time          `json:"stageTimestamp"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Write{}, err
	}
	w := Write{
		At: e.At, User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, StatusCode: e.Response.Code,
	}
	if e.ObjectRef.Subresource != "" {
		w.Resource += "/" + e.ObjectRef.Subresource
	}
	return w, nil
}
