package hub

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"time"
)

// nodeName is the name in the certificates of all nodes.
const nodeName = "hub.tether.internal"

// The certificates of nodes are valid for all clocks: who does not have the keys of the fleet cannot make one.
var (
	validFrom  = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	validUntil = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// clusterTLS returns how the nodes of a cluster connect to each other. The authority that both sides trust is derived from the keys
// of the fleet, so it exists nowhere else, and every node can make its own certificate.
func (k *Keys) clusterTLS() (*tls.Config, error) {
	seed, err := k.derive("cluster")
	if err != nil {
		return nil, err
	}
	authority := ed25519.NewKeyFromSeed(seed)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tether fleet"}, NotBefore: validFrom, NotAfter: validUntil,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, authority.Public(), authority)
	if err != nil {
		return nil, err
	}
	if root, err = x509.ParseCertificate(rootDER); err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	node := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: nodeName}, DNSNames: []string{nodeName}, NotBefore: validFrom, NotAfter: validUntil,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	nodeDER, err := x509.CreateCertificate(rand.Reader, node, root, public, authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: nodeName, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{nodeDER}, PrivateKey: private}},
	}, nil
}
