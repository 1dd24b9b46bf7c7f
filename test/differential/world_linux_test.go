package differential_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"fairlead.dev/fairlead/internal/traffic"
)

// world is one of the two ways in which the Services are served, seen by a client.
type world struct {
	name   string
	client *netns.Namespace
}

const (
	// asks is how often a port is asked, to see all who answer: one of four is missed once in 3,000.
	asks = 28
	// patience is how long an answer may take. Where packets are dropped, it passes.
	patience = 1500 * time.Millisecond
)

// how asks a port and returns what can be seen there, as text.
type how func(ctx context.Context, w *world, to netip.AddrPort) string

// tcp is who answers: Pods, sorted, or why there is no answer.
func tcp(ctx context.Context, w *world, to netip.AddrPort) string {
	return w.all(func() string { return w.get(ctx, to, func(a testkit.Answer) string { return a.Pod }) })
}

// ports is the same with the port at which each Pod was asked.
func ports(ctx context.Context, w *world, to netip.AddrPort) string {
	return w.all(func() string {
		return w.get(ctx, to, func(a testkit.Answer) string { return fmt.Sprintf("%s:%d", a.Pod, a.Port) })
	})
}

// clients is whom Pods see: the client, a node (by the address by which it reaches the Pod), or somebody else.
func clients(ctx context.Context, w *world, to netip.AddrPort) string {
	return w.all(func() string {
		return w.get(ctx, to, func(a testkit.Answer) string {
			seen, err := netip.ParseAddrPort(a.Client)
			switch ip := seen.Addr().Unmap().String(); {
			case err != nil:
				return err.Error()
			case ip == address(clientHost):
				return "client"
			case strings.HasPrefix(ip, "10.99.") || ip == address(node(1)) || ip == address(node(2)):
				return "node"
			default:
				return ip
			}
		})
	})
}

// udp is tcp for datagrams, each of a flow of its own.
func udp(ctx context.Context, w *world, to netip.AddrPort) string {
	return w.all(func() string { return w.datagram(ctx, to) })
}

// health is the whole answer of a health check, without times.
func health(ctx context.Context, w *world, to netip.AddrPort) string {
	status, header, body, err := w.http(ctx, "http://"+to.String()+"/healthz")
	if err != nil {
		return failure(err)
	}
	weight := ""
	if v := header.Get("X-Load-Balancing-Endpoint-Weight"); v != "" {
		weight = " weight " + v
	}
	return fmt.Sprintf("%d%s %s %s %s", status, weight, header.Get("Content-Type"), header.Get("X-Content-Type-Options"), times.ReplaceAllString(body, "TIME"))
}

// times are those of a kube-proxy's /healthz.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// all asks again and again; the first failure ends it.
func (w *world) all(ask func() string) string {
	seen := []string{}
	for range asks {
		who := ask()
		if !slices.Contains(seen, who) {
			seen = append(seen, who)
		}
		if strings.HasPrefix(who, "(") {
			break
		}
	}
	slices.Sort(seen)
	return strings.Join(seen, " ")
}

// failure is why there was no answer, in brackets.
func failure(err error) string {
	if kind := traffic.KindOf(err); kind != traffic.FailureOther {
		return "(" + string(kind) + ")"
	}
	return "(" + err.Error() + ")"
}

func (w *world) get(ctx context.Context, to netip.AddrPort, say func(testkit.Answer) string) string {
	_, _, body, err := w.http(ctx, "http://"+to.String()+"/")
	if err != nil {
		return failure(err)
	}
	return said([]byte(body), say)
}

func said(body []byte, say func(testkit.Answer) string) string {
	a := testkit.Answer{}
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Sprintf("(%s in %.80q)", err, body)
	}
	return say(a)
}

// http makes one request on a connection of its own.
func (w *world) http(ctx context.Context, url string) (int, http.Header, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return w.client.Dial(ctx, net.Dialer{}, network, address)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, "", err
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(body), err
}

func (w *world) datagram(ctx context.Context, to netip.AddrPort) string {
	c, err := w.client.Dial(ctx, net.Dialer{}, "udp", to.String())
	if err != nil {
		return failure(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return failure(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		return failure(err)
	}
	b := make([]byte, 2048)
	n, err := c.Read(b)
	if err != nil {
		return failure(err)
	}
	return said(b[:n], func(a testkit.Answer) string { return a.Pod })
}
