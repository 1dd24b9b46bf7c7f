package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// certLife is how long certificates are valid; control planes live shorter.
const certLife = 30 * 24 * time.Hour

// authority issues a control plane's certificates. It is safe for concurrent use.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair is a certificate and its key in PEM.
type keyPair struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making CA key: %w", err)
	}
	t := template(pkix.Name{CommonName: "testkit-ca"})
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making CA certificate: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// server issues the API server's certificate.
func (a *authority) server(address netip.Addr) (keyPair, error) {
	t := template(pkix.Name{CommonName: "kube-apiserver"})
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.IPAddresses = []net.IP{address.AsSlice(), net.IPv4(127, 0, 0, 1)}
	t.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	return a.issue(t)
}

// client issues a user's certificate.
func (a *authority) client(user string, groups []string) (keyPair, error) {
	t := template(pkix.Name{CommonName: user, Organization: groups})
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(t)
}

func (a *authority) issue(t *x509.Certificate) (keyPair, error) {
	t.KeyUsage = x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("making certificate for %s: %w", t.Subject.CommonName, err)
	}
	return keyPair{cert: encode("CERTIFICATE", der), key: keyPEM}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("making key: %w", err)
	}
	return key, encode("EC PRIVATE KEY", der), nil
}

func template(name pkix.Name) *x509.Certificate {
	serial := make([]byte, 16)
	// crypto/rand never fails.
	_, _ = rand.Read(serial)
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      name,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certLife),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
