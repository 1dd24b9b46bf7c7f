package install_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
)

// program is a container that runs here.
type program struct {
	name      string
	container corev1.Container
	at        netip.Addr // in place of the Pod's address
	log       string
}

// runContainer starts the one container of a Pod: its arguments, with replacements (old, new, …) of what only a Pod has, and
// an environment. It has an address of this machine as its own.
func runContainer(t *testing.T, name string, p corev1.PodTemplateSpec, at netip.Addr, env []string, replace ...string) *program {
	t.Helper()
	if len(p.Spec.Containers) != 1 {
		t.Fatalf("%s has %d containers", name, len(p.Spec.Containers))
	}
	c := p.Spec.Containers[0]
	arguments := make([]string, len(c.Args))
	for i, a := range c.Args {
		a = strings.NewReplacer(append(replace, "address=:", "address="+at.String()+":")...).Replace(a)
		if strings.Contains(a, "$(") {
			t.Fatalf("%s: nothing replaces %s", name, a)
		}
		arguments[i] = a
	}
	log := filepath.Join(t.TempDir(), name+".log")
	kubetest.StartProcess(t, testkit.Command{Name: name, Path: fairlead, Args: arguments, Env: env, Log: log})
	return &program{name: name, container: c, at: at, log: log}
}

// probe checks that what the kubelet would ask is answered, and that all ports that are named are open.
func (p *program) probe(t *testing.T) {
	t.Helper()
	for what, probe := range map[string]*corev1.Probe{"alive": p.container.LivenessProbe, "ready": p.container.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			t.Fatalf("%s: nothing tells whether it is %s", p.name, what)
		}
		get := probe.HTTPGet
		url := fmt.Sprintf("%s://%s%s", strings.ToLower(string(get.Scheme)), netip.AddrPortFrom(p.at, p.port(t, get.Port)), get.Path)
		if get.Scheme == "" {
			url = "http" + url
		}
		kubetest.Eventually(t, soon, p.name+" to be "+what, func(ctx context.Context) error {
			code, body, err := ask(ctx, url, "")
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("%s answers %d: %s", url, code, body)
			}
			return err
		})
	}
	for _, port := range p.container.Ports {
		c, err := net.Dial("tcp", netip.AddrPortFrom(p.at, uint16(port.ContainerPort)).String())
		if err != nil {
			t.Errorf("%s: port %s: %v", p.name, port.Name, err)
			continue
		}
		_ = c.Close()
	}
}

func (p *program) port(t *testing.T, port intstr.IntOrString) uint16 {
	t.Helper()
	if port.Type == intstr.Int {
		return uint16(port.IntVal)
	}
	for _, named := range p.container.Ports {
		if named.Name == port.StrVal {
			return uint16(named.ContainerPort)
		}
	}
	t.Fatalf("%s: no port is called %q", p.name, port.StrVal)
	return 0
}

// metrics is what it shows to a reader; it must not to others.
func (p *program) metrics(t *testing.T, reader, stranger string) []byte {
	t.Helper()
	port := ""
	for _, a := range p.container.Args {
		if address, ok := strings.CutPrefix(a, "--metrics-address="); ok {
			port = address[strings.LastIndexByte(address, ':')+1:]
		}
	}
	url := "https://" + net.JoinHostPort(p.at.String(), port) + "/metrics"
	for token, want := range map[string]int{"": http.StatusUnauthorized, stranger: http.StatusForbidden} {
		if code, body, err := ask(t.Context(), url, token); err != nil || code != want || bytes.Contains(body, []byte("fairlead_")) {
			t.Errorf("%s shows its metrics to others: %d, want %d (%v)", p.name, code, want, err)
		}
	}
	code, body, err := ask(t.Context(), url, reader)
	if err != nil || code != http.StatusOK {
		t.Fatalf("%s doesn't show its metrics: %d %s %v", p.name, code, body, err)
	}
	return body
}

// unhindered checks that it lacked no right.
func (p *program) unhindered(t *testing.T) {
	t.Helper()
	said, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "forbidden") || strings.Contains(line, "cannot ") {
			t.Errorf("%s lacks a right: %s", p.name, line)
		}
	}
}

// ask asks as somebody with a token; a certificate that nobody knows is believed.
func ask(ctx context.Context, url, token string) (code int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// token is that of a kubeconfig.
func token(t *testing.T, kubeconfig string) string {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.BearerToken
}
