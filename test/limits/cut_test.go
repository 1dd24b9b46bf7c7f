package limits_test

import (
	"context"
	"io"
	"net/http"
)

// cutAfter is the key under which a request's context says after how many bytes its answer breaks off.
type cutAfter struct{}

func cutting(r *http.Request, after int64) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), cutAfter{}, after))
}

// cut is a body that breaks off.
type cut struct {
	io.ReadCloser
	left int64
}

func (c *cut) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}
