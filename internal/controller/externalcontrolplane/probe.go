package externalcontrolplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
)

const (
	// patience is how long the hub may take for a kubeconfig, and then a control plane for all that it is asked.
	patience = 5 * time.Second
	// mostRead is how much of an answer is read, in bytes. A namespace with large annotations has less.
	mostRead = 1 << 20
	// mostVersion is how long a version may be that is shown.
	mostVersion = 256
	// mostUID is how long a UID may be that is shown, and mostServer a kubeconfig's server, in bytes.
	mostUID, mostServer = 128, 1024
	// idle is how long a connection may go unused, were it left by a probe: each closes its own.
	idle = time.Minute
)

// Found is what a probe found of a control plane.
type Found struct {
	// Reason of the condition Available, and what to say with it, which stays the same while the cause does.
	Reason, Message string
	// Version and ClusterUID of what answered; Version is empty if it isn't one as Kubernetes has them.
	Version, ClusterUID string
}

// available says that an API server answered, whichever it is.
func (f Found) available() bool { return f.Reason == controlplanev1.ReasonAvailable }

func found(reason, format string, args ...any) Found {
	return Found{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ask has an API server say which version it has, and who it is. The second proves that it knows the kubeconfig's user and has its
// store. It ends when ctx does, and when it takes too long.
func ask(ctx context.Context, cfg *rest.Config) Found {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	server, client, connections, err := clientFor(cfg)
	if err != nil {
		return found(controlplanev1.ReasonKubeconfigInvalid, "its certificates or its key don't parse: mend them")
	}
	defer connections.CloseIdleConnections() // the client's own does nothing: what adds credentials doesn't pass it on
	var says struct {
		GitVersion string `json:"gitVersion"`
	}
	if f := get(ctx, client, server.JoinPath("version"), &says); f != nil {
		return *f
	}
	n := metav1.PartialObjectMetadata{}
	if f := get(ctx, client, server.JoinPath("api", "v1", "namespaces", metav1.NamespaceSystem), &n); f != nil {
		return *f
	}
	if n.UID == "" || len(n.UID) > mostUID {
		return nonsense(server)
	}
	out := Found{Reason: controlplanev1.ReasonAvailable, ClusterUID: string(n.UID)}
	if _, err := version.ParseSemantic(says.GitVersion); err == nil && len(says.GitVersion) <= mostVersion {
		out.Version = says.GitVersion
	}
	return out
}

// clientFor is a client which follows no redirect, with connections of its own. The transport closes them, and gives up those that
// are still being made. Proxies are the manager's own alone, by its environment.
func clientFor(cfg *rest.Config) (*url.URL, *http.Client, *http.Transport, error) {
	server, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, nil, nil, err
	}
	trust, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	connections := &http.Transport{
		TLSClientConfig: trust, Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		TLSHandshakeTimeout: patience, IdleConnTimeout: idle,
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, connections)
	if err != nil {
		return nil, nil, nil, err
	}
	client := &http.Client{Transport: wrapped, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return server, client, connections, nil
}

// get reads one answer. nil: it is in out.
func get(ctx context.Context, client *http.Client, from *url.URL, out any) *Found {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		f := found(controlplanev1.ReasonKubeconfigInvalid, "cluster.server must be https://host:port")
		return &f
	}
	req.Header.Set("Accept", "application/json")
	response, err := client.Do(req)
	if err != nil {
		f := found(controlplanev1.ReasonUnreachable, "%s %s.", from.Host, why(err))
		return &f
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, mostRead))
	if closing := response.Body.Close(); err == nil {
		err = closing
	}
	var f Found
	switch {
	case err != nil:
		f = found(controlplanev1.ReasonUnreachable, "%s %s.", from.Host, why(err))
	case response.StatusCode == http.StatusUnauthorized:
		f = found(controlplanev1.ReasonUnauthorized, "%s doesn't know the kubeconfig's user: renew its credentials.", from.Host)
	case response.StatusCode == http.StatusForbidden:
		f = found(controlplanev1.ReasonUnauthorized, "%s doesn't let the kubeconfig's user get %s: give it the right.", from.Host, from.Path)
	case response.StatusCode != http.StatusOK:
		f = found(controlplanev1.ReasonNotReady, "%s answers %d to %s: see whether it is well, and an API server.", from.Host, response.StatusCode, from.Path)
	case json.Unmarshal(body, out) != nil:
		f = nonsense(from)
	default:
		return nil
	}
	return &f
}

func nonsense(from *url.URL) Found {
	return found(controlplanev1.ReasonNotReady, "%s doesn't answer as an API server does: mend cluster.server of the kubeconfig.", from.Host)
}

// why says how a connection fails, in words that stay the same while it does: without ports of ours, and times.
func why(err error) string {
	var (
		lookup    *net.DNSError
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		untrusted *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("doesn't answer within %s", patience)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refuses connections"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "can't be reached: there is no route to it"
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "can't be reached: its name isn't known"
	case errors.As(err, &lookup):
		return "can't be reached: its name can't be looked up"
	case errors.As(err, &authority):
		return "isn't trusted: its certificate isn't signed by the kubeconfig's authority"
	case errors.As(err, &hostname):
		return "isn't trusted: its certificate is for other names"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "isn't trusted: its certificate has expired, or isn't valid yet"
	case errors.As(err, &untrusted):
		return "isn't trusted: its certificate isn't good for a server"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "doesn't speak TLS"
	case errors.As(err, &op) && op.Op == "remote error":
		return "breaks off the handshake: see whether it takes the kubeconfig's client certificate"
	}
	return "breaks off connections"
}
