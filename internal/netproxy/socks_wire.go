package netproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// The numbers of SOCKS version 5 (RFC 1928) that are used here.
const (
	socksVersion = 5

	socksNoAuth    = 0x00 // method: no authentication
	socksNoMethods = 0xff // none of the offered methods is acceptable

	socksConnect   = 1
	socksBind      = 2
	socksAssociate = 3

	socksIPv4   = 1
	socksDomain = 3
	socksIPv6   = 4
)

// A socksReply is the result of a request.
type socksReply byte

// The replies.
const (
	socksOK             socksReply = 0
	socksFailure        socksReply = 1
	socksRefused        socksReply = 2 // by the rules
	socksNoNetwork      socksReply = 3
	socksNoHost         socksReply = 4
	socksConnRefused    socksReply = 5
	socksUnknownCommand socksReply = 7
	socksUnknownAddress socksReply = 8
)

var (
	errSocksVersion  = errors.New("not SOCKS version 5")
	errSocksReserved = errors.New("reserved byte is not zero")
	errSocksAddress  = errors.New("unknown address type")
	errSocksShort    = errors.New("datagram ends within its header")
)

// A socksAddr is a destination in the client's spelling. The host of a domain address
// may be any bytes: netpolicy.Normalize decides whether it is a name.
type socksAddr struct {
	host string
	port uint16
}

// readSocksGreeting reads the methods that a client offers. Like readSocksRequest it reads
// no byte more than that from r: bytes that a client sends early stay there.
func readSocksGreeting(r io.Reader) (methods []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return nil, err
	}
	if head[0] != socksVersion { // older versions may send no more bytes than this
		return nil, errSocksVersion
	}
	if err := readWhole(r, head[1:]); err != nil {
		return nil, err
	}
	methods = make([]byte, head[1])
	return methods, readWhole(r, methods)
}

// readSocksRequest reads a command and its destination.
func readSocksRequest(r io.Reader) (command byte, to socksAddr, err error) {
	var head [4]byte // version, command, reserved, address type
	if err := readWhole(r, head[:]); err != nil {
		return 0, socksAddr{}, err
	}
	if head[0] != socksVersion {
		return 0, socksAddr{}, errSocksVersion
	}
	if head[2] != 0 {
		return 0, socksAddr{}, errSocksReserved
	}
	to, err = readSocksAddr(r, head[3])
	return head[1], to, err
}

// readSocksAddr reads an address of the given type and the port behind it.
func readSocksAddr(r io.Reader, kind byte) (socksAddr, error) {
	var buf [1 + 255 + 2]byte // the longest: a length, a domain, a port
	var rest []byte
	switch kind {
	case socksIPv4:
		rest = buf[:4+2]
	case socksIPv6:
		rest = buf[:16+2]
	case socksDomain:
		if err := readWhole(r, buf[:1]); err != nil {
			return socksAddr{}, err
		}
		rest = buf[1 : 1+int(buf[0])+2]
	default:
		return socksAddr{}, fmt.Errorf("%w %d", errSocksAddress, kind)
	}
	if err := readWhole(r, rest); err != nil {
		return socksAddr{}, err
	}
	host, port := rest[:len(rest)-2], binary.BigEndian.Uint16(rest[len(rest)-2:])
	if kind == socksDomain {
		return socksAddr{string(host), port}, nil
	}
	ip, _ := netip.AddrFromSlice(host) // 4 or 16 bytes: always an address
	return socksAddr{ip.Unmap().String(), port}, nil
}

// readWhole fills b. The end of r is always unexpected here.
func readWhole(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendSocksReply appends a reply. An invalid bound address, as after a failure, is
// sent as 0.0.0.0:0.
func appendSocksReply(b []byte, code socksReply, bound netip.AddrPort) []byte {
	return appendSocksAddr(append(b, socksVersion, byte(code), 0), bound)
}

// appendSocksAddr appends the type of an address, the address and its port.
func appendSocksAddr(b []byte, a netip.AddrPort) []byte {
	ip := a.Addr().Unmap().WithZone("")
	if !ip.IsValid() {
		ip = netip.IPv4Unspecified()
	}
	kind := byte(socksIPv4)
	if ip.Is6() {
		kind = socksIPv6
	}
	b = append(b, kind)
	b = append(b, ip.AsSlice()...)
	return binary.BigEndian.AppendUint16(b, a.Port())
}

// A sliceReader reads from a datagram; the rest of it is the payload.
type sliceReader []byte

func (s *sliceReader) Read(b []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	n := copy(b, *s)
	*s = (*s)[n:]
	return n, nil
}

// parseSocksDatagram parses a datagram from a client to a relay: destination, number
// of the fragment (0: a whole datagram) and payload, which is part of b.
func parseSocksDatagram(b []byte) (to socksAddr, fragment byte, payload []byte, err error) {
	if len(b) < 4 {
		return socksAddr{}, 0, nil, errSocksShort
	}
	if b[0] != 0 || b[1] != 0 {
		return socksAddr{}, 0, nil, errSocksReserved
	}
	r := sliceReader(b[4:])
	to, err = readSocksAddr(&r, b[3])
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errSocksShort
	}
	if err != nil {
		return socksAddr{}, 0, nil, err
	}
	return to, b[2], r, nil
}

// appendSocksDatagram appends the header of a datagram from a peer.
func appendSocksDatagram(b []byte, from netip.AddrPort) []byte {
	return appendSocksAddr(append(b, 0, 0, 0), from)
}

// socksDatagramHead is the length of the longest header that appendSocksDatagram makes.
const socksDatagramHead = 3 + 1 + 16 + 2
