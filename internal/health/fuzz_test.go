package health

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

// member answers with what it was given, and keeps what it was asked.
type member struct {
	asked  bytes.Buffer
	answer io.Reader
}

func (m *member) Write(b []byte) (int, error) { return m.asked.Write(b) }
func (m *member) Read(b []byte) (int, error)  { return m.answer.Read(b) }

// Whatever a member answers: it is healthy only where Go's own reader finds an answer whose status says so.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 302\n", "HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 +200 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n",
		"HTTP/1.1 2000\r\n", "HTTP/ 200\n", "HTTP/2 200\n", "\x16\x03\x01\x02\x00", "HTTP/1.1 99999999999999999999 x\n", "HTTP/1.1 -1\n",
		"HTTP/1.1 200 " + strings.Repeat("x", 500) + "\r\n\r\n", strings.Repeat("x", 300) + " 200\n", "HTTP/1.1 200",
	} {
		f.Add([]byte(answer), "401,404")
	}
	f.Fuzz(func(t *testing.T, answer []byte, alive string) {
		if askHTTP(&member{answer: bytes.NewReader(answer)}, "192.0.2.1:80", lb.Check{Alive: alive}) != nil {
			return
		}
		line, _, _ := bytes.Cut(answer, []byte("\n"))
		// The words behind the status don't matter, and may be cut.
		words := strings.Fields(string(line))
		if len(words) < 2 {
			t.Fatalf("healthy by the answer %q", answer)
		}
		r, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 "+words[1]+" \r\n\r\n")), nil)
		if err != nil {
			t.Fatalf("healthy by the answer %q: %v", answer, err)
		}
		if (r.StatusCode < 200 || r.StatusCode > 399) && !slices.Contains(strings.Split(alive, ","), words[1]) {
			t.Fatalf("healthy by status %d, and alive are %q", r.StatusCode, alive)
		}
	})
}

// Whatever path a check names: what goes out is one request for it, or nothing.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"", "/", "/healthz?x=y#z", "healthz", "/a b", "/a\r\nX: y", "/ä", "/\x7f", "//x", "/%zz", "/\u2028", "*"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		m := &member{answer: strings.NewReader("HTTP/1.1 200 OK\r\n\r\n")}
		err := askHTTP(m, "192.0.2.1:80", lb.Check{Path: path})
		asked := m.asked.String()
		if err != nil {
			if asked != "" {
				t.Fatalf("%v, and it asked %q", err, asked)
			}
			return
		}
		line, rest, _ := strings.Cut(asked, "\r\n")
		want := path
		if want == "" {
			want = "/"
		}
		if line != "GET "+want+" HTTP/1.1" || strings.Count(rest, "\r\n\r\n") != 1 || !strings.HasSuffix(rest, "\r\n\r\n") || strings.ContainsAny(line, "\r\n") {
			t.Fatalf("path %q makes the request %q", path, asked)
		}
	})
}
