package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)

// MetricsOptions say where and to whom a process shows its metrics. The zero value: nowhere.
type MetricsOptions struct {
	// Address serves /metrics, /healthz and /readyz; empty: none.
	Address string
	// Secure serves by TLS, and /metrics to those alone whose bearer token the process's API server knows (TokenReview) and
	// allows to get the non-resource URL /metrics (SubjectAccessReview). Answers are believed for a minute, and five. The API
	// server is asked seldom: while somebody floods the address with tokens, readers may have to wait or be refused.
	// Health is shown to everybody: kubelets bring no token.
	Secure bool
	// CertDir has tls.crt and tls.key, which are read again when they change. Empty: a certificate that the process makes and
	// signs itself, which lasts for a year. Only where Secure.
	CertDir string
}

// check says what no later attempt can mend.
func (o MetricsOptions) check() error {
	if o.CertDir != "" && !o.Secure {
		return errors.New("--metrics-cert-dir: set --metrics-secure too, without which nothing is served by TLS")
	}
	return nil
}

// Reviews of one kind that a process asks for. A reader costs one of each in some minutes, but so does each token that an
// outsider makes up; they have the process's seats at the API server, where its own word must not wait behind them.
const (
	reviewsPerSecond = 2
	reviewBurst      = 10
)

// askFirst lets those see h whom the API server allows. It asks within reviewsPerSecond, and logs what fails once in sayEvery.
func askFirst(h http.Handler, api *rest.Config, log *slog.Logger) (http.Handler, error) {
	api = rest.CopyConfig(api)
	api.UserAgent += "/metrics-review"
	api.RateLimiter, api.QPS, api.Burst = nil, reviewsPerSecond, reviewBurst
	client, err := rest.HTTPClientFor(api)
	if err != nil {
		return nil, fmt.Errorf("making a client that asks who may see metrics: %w", err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(api, client)
	if err == nil {
		h, err = filter(logr.FromSlogHandler(newSeldom(log.Handler())), h)
	}
	if err != nil {
		return nil, fmt.Errorf("asking who may see metrics: %w", err)
	}
	return h, nil
}

// certificates are what the server shows, until forget is called.
func (o MetricsOptions) certificates(log *slog.Logger) (c *tls.Config, forget func(), err error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CertDir == "" {
		pem, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("making a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(pem, key)
		if err != nil {
			return nil, nil, fmt.Errorf("making a certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
		return c, func() {}, nil
	}
	files, err := certwatcher.New(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
	if err != nil {
		return nil, nil, fmt.Errorf("--metrics-cert-dir: %w", err)
	}
	c.GetCertificate = files.GetCertificate
	ctx, forget := context.WithCancel(context.Background())
	go func() {
		if err := files.Start(ctx); err != nil {
			log.Error("the certificate of metrics isn't read again", "dir", o.CertDir, "err", err)
		}
	}()
	return c, forget, nil
}
