package cloud

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"time"
)

// identity is what a control plane proves itself with, and its administrator.
type identity struct {
	// CA, Certificate and Key in PEM.
	CA, Certificate, Key []byte
	Token                string
}

// certified is how long certificates are good for: the example renews none.
const certified = 10 * 365 * 24 * time.Hour

// newIdentity makes an authority, which is forgotten once it has signed, and a certificate for these names and addresses.
func newIdentity(id string, names []string) (identity, error) {
	now := time.Now()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("making an authority: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: id}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certified),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &authority.PublicKey, authority)
	if err != nil {
		return identity{}, fmt.Errorf("making an authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("making a key: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: id}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certified),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if a, err := netip.ParseAddr(n); err == nil {
			leaf.IPAddresses = append(leaf.IPAddresses, a.AsSlice())
		} else {
			leaf.DNSNames = append(leaf.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, authority)
	if err != nil {
		return identity{}, fmt.Errorf("making a certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return identity{}, fmt.Errorf("encoding a key: %w", err)
	}
	return identity{CA: block("CERTIFICATE", caDER), Certificate: block("CERTIFICATE", der), Key: block("PRIVATE KEY", pkcs8), Token: rand.Text()}, nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (i identity) tls() (*tls.Config, error) {
	pair, err := tls.X509KeyPair(i.Certificate, i.Key)
	if err != nil {
		return nil, fmt.Errorf("reading its certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
