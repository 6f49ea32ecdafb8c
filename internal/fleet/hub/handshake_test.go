package hub

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

// handshake connects two nodes of a cluster as the server does.
func handshake(t *testing.T, server, client *Keys) error {
	t.Helper()
	serverConfig, err := server.clusterTLS()
	if err != nil {
		t.Fatal(err)
	}
	clientConfig, err := client.clusterTLS()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // not a pipe: both ends may write at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	result := make(chan error, 1)
	go func() { // ends with the handshake, or when the other end is closed
		s := tls.Server(a, serverConfig)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x")) // with TLS 1.3 the client has not heard yet whether it is trusted
		}
		a.Close()
		result <- err
	}()
	c := tls.Client(b, clientConfig)
	err = c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	b.Close()
	return errors.Join(err, <-result)
}
