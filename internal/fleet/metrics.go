package fleet

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// sample is one line of a Prometheus text exposition.
type sample struct {
	labels map[string]string
	value  float64
}

var label = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)

// client reaches what this proxy serves on its own host's loopback.
func (p *Proxy) client() *http.Client {
	if p.host == nil {
		return http.DefaultClient
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.host.Dial(ctx, net.Dialer{}, network, address)
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// metric reads the samples of one metric from a program.
func (p *Proxy) metric(ctx context.Context, name string) ([]sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Metrics.String()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", p.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the metrics of %s: %s", p.Name, resp.Status)
	}
	samples := []sample{}
	for lines := bufio.NewScanner(resp.Body); ; {
		if !lines.Scan() {
			return samples, lines.Err()
		}
		rest, ours := strings.CutPrefix(lines.Text(), name)
		if !ours || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", p.Name, err)
		}
		s := sample{map[string]string{}, value}
		for _, l := range label.FindAllStringSubmatch(rest, -1) {
			s.labels[l[1]] = l[2]
		}
		samples = append(samples, s)
	}
}

// Connects is how many connections this proxy has tried to a target of a tenant, health checks left out.
func (p *Proxy) Connects(ctx context.Context, tenant, target string) (float64, error) {
	samples, err := p.metric(ctx, "fairlead_proxy_connects_total")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, s := range samples {
		if s.labels["tenant"] == tenant && s.labels["target"] == target {
			sum += s.value
		}
	}
	return sum, nil
}
