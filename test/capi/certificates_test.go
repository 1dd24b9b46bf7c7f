package capi_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// serving makes a server's certificate for IP addresses, in PEM, with its key: of an authority, or of its own if that is nil.
func serving(authority *tls.Certificate, addresses ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // it never fails
	t := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      pkix.Name{CommonName: addresses[0]},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, a := range addresses {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(a))
	}
	parent, by := t, crypto.PrivateKey(private)
	if authority != nil {
		if parent, err = x509.ParseCertificate(authority.Certificate[0]); err != nil {
			return nil, nil, err
		}
		by = authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, private.Public(), by)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate for %v: %w", addresses, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}
