package netproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
)

// domainAddr and ipAddr encode a destination for the wire, type first.
func domainAddr(host string, port uint16) string {
	return string(binary.BigEndian.AppendUint16(append([]byte{socksDomain, byte(len(host))}, host...), port))
}

func ipAddr(ip string, port uint16) string {
	raw := netip.MustParseAddr(ip).AsSlice()
	kind := map[int]string{4: "\x01", 16: "\x04"}[len(raw)]
	return string(binary.BigEndian.AppendUint16([]byte(kind+string(raw)), port))
}

func TestReadSocksRequest(t *testing.T) {
	long := strings.Repeat("a", 255)
	for _, test := range []struct {
		name, in string
		command  byte
		want     socksAddr
		err      error
	}{
		{"v4", "\x05\x01\x00" + ipAddr("192.0.2.1", 80), 1, socksAddr{"192.0.2.1", 80}, nil},
		{"v6", "\x05\x03\x00" + ipAddr("2001:db8::1", 65535), 3, socksAddr{"2001:db8::1", 65535}, nil},
		{"mapped", "\x05\x01\x00" + ipAddr("::ffff:10.0.0.1", 1), 1, socksAddr{"10.0.0.1", 1}, nil},
		{"domain", "\x05\x02\x00" + domainAddr("Example.COM.", 443), 2, socksAddr{"Example.COM.", 443}, nil},
		{"empty domain", "\x05\x01\x00" + domainAddr("", 0), 1, socksAddr{"", 0}, nil},
		{"longest domain", "\x05\x01\x00" + domainAddr(long, 7), 1, socksAddr{long, 7}, nil},
		{"bytes", "\x05\x01\x00" + domainAddr("a\x00\xff", 7), 1, socksAddr{"a\x00\xff", 7}, nil},
		{"version", "\x04\x01\x00" + ipAddr("192.0.2.1", 80), 0, socksAddr{}, errSocksVersion},
		{"reserved", "\x05\x01\x01" + ipAddr("192.0.2.1", 80), 0, socksAddr{}, errSocksReserved},
		{"address type", "\x05\x01\x00\x02xxxxxx", 1, socksAddr{}, errSocksAddress},
		{"nothing", "", 0, socksAddr{}, io.ErrUnexpectedEOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := strings.NewReader(test.in + "more")
			if test.err != nil {
				r = strings.NewReader(test.in)
			}
			command, to, err := readSocksRequest(iotest.OneByteReader(r))
			if command != test.command || to != test.want || !errors.Is(err, test.err) {
				t.Fatalf("got %d %v %v", command, to, err)
			}
			if test.err != nil {
				return
			}
			if rest, _ := io.ReadAll(r); string(rest) != "more" {
				t.Errorf("left %q", rest)
			}
			for cut := range test.in {
				_, _, err := readSocksRequest(strings.NewReader(test.in[:cut]))
				if err != io.ErrUnexpectedEOF {
					t.Errorf("cut at %d: %v", cut, err)
				}
			}
		})
	}
}

func TestReadSocksGreeting(t *testing.T) {
	for _, test := range []struct {
		in, methods string
		err         error
	}{
		{"\x05\x01\x00", "\x00", nil},
		{"\x05\x03\x02\x00\x01", "\x02\x00\x01", nil},
		{"\x05\x00", "", nil},
		{"", "", io.EOF},
		{"\x05", "", io.ErrUnexpectedEOF},
		{"\x05\x02\x00", "", io.ErrUnexpectedEOF},
		{"\x04", "", errSocksVersion},
		{"G", "", errSocksVersion},
	} {
		methods, err := readSocksGreeting(strings.NewReader(test.in))
		if !errors.Is(err, test.err) || err == nil && string(methods) != test.methods {
			t.Errorf("%q: got %q %v", test.in, methods, err)
		}
	}
}

func TestAppendSocksReply(t *testing.T) {
	for _, test := range []struct {
		code  socksReply
		bound string
		want  string
	}{
		{socksOK, "127.0.0.1:258", "\x05\x00\x00\x01\x7f\x00\x00\x01\x01\x02"},
		{socksOK, "[::ffff:127.0.0.1]:258", "\x05\x00\x00\x01\x7f\x00\x00\x01\x01\x02"},
		{socksOK, "[fe80::1%eth0]:1", "\x05\x00\x00\x04\xfe\x80" + strings.Repeat("\x00", 13) + "\x01\x00\x01"},
		{socksRefused, "", "\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"},
	} {
		bound, _ := netip.ParseAddrPort(test.bound)
		if got := appendSocksReply(nil, test.code, bound); string(got) != test.want {
			t.Errorf("%v %s: %x", test.code, test.bound, got)
		}
	}
}

func TestParseSocksDatagram(t *testing.T) {
	for _, test := range []struct {
		in       string
		to       socksAddr
		fragment byte
		payload  string
		err      error
	}{
		{"\x00\x00\x00" + ipAddr("192.0.2.1", 53) + "hi", socksAddr{"192.0.2.1", 53}, 0, "hi", nil},
		{"\x00\x00\x81" + domainAddr("a.example", 53), socksAddr{"a.example", 53}, 0x81, "", nil},
		{"\x00\x01\x00" + ipAddr("192.0.2.1", 53), socksAddr{}, 0, "", errSocksReserved},
		{"\x00\x00\x00\x05abcdef", socksAddr{}, 0, "", errSocksAddress},
		{"\x00\x00\x00", socksAddr{}, 0, "", errSocksShort},
		{"\x00\x00\x00\x03", socksAddr{}, 0, "", errSocksShort},
		{"\x00\x00\x00\x03\x05abcd\x00\x00", socksAddr{}, 0, "", errSocksShort},
		{"\x00\x00\x00\x04abcdef", socksAddr{}, 0, "", errSocksShort},
		{"", socksAddr{}, 0, "", errSocksShort},
	} {
		to, fragment, payload, err := parseSocksDatagram([]byte(test.in))
		if to != test.to || fragment != test.fragment || string(payload) != test.payload || !errors.Is(err, test.err) {
			t.Errorf("%q: got %v %d %q %v", test.in, to, fragment, payload, err)
		}
	}
}

// A request that was read and written again is the same.
func FuzzReadSocksRequest(f *testing.F) {
	f.Add([]byte("\x05\x01\x00" + ipAddr("192.0.2.1", 80) + "tail"))
	f.Add([]byte("\x05\x03\x00" + ipAddr("::ffff:1.2.3.4", 80)))
	f.Add([]byte("\x05\x01\x00" + domainAddr("a\x00b", 80)))
	f.Add([]byte("\x05\x01\x00\x03\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		command, to, err := readSocksRequest(r)
		if err != nil {
			return
		}
		again := []byte{socksVersion, command, 0}
		if in[3] == socksDomain {
			again = append(again, domainAddr(to.host, to.port)...)
		} else {
			again = appendSocksAddr(again, netip.AddrPortFrom(netip.MustParseAddr(to.host), to.port))
		}
		taken := in[:len(in)-r.Len()]
		if in[3] == socksIPv6 && again[3] == socksIPv4 { // was mapped
			if !bytes.HasSuffix(taken, again[4:]) {
				t.Fatalf("%x became %x", taken, again)
			}
		} else if !bytes.Equal(again, taken) {
			t.Fatalf("%x became %x", taken, again)
		}
	})
}

// A datagram and a request agree about addresses, and no payload byte is lost.
func FuzzParseSocksDatagram(f *testing.F) {
	f.Add([]byte("\x00\x00\x00" + ipAddr("192.0.2.1", 53) + "payload"))
	f.Add([]byte("\x00\x00\x01" + domainAddr("a.example", 53)))
	f.Add([]byte("\x00\x00\x00\x03\xff\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		to, fragment, payload, err := parseSocksDatagram(in)
		if err != nil {
			return
		}
		request := append([]byte{socksVersion, socksConnect, 0}, in[3:]...)
		r := bytes.NewReader(request)
		_, same, err := readSocksRequest(r)
		if err != nil || same != to || fragment != in[2] || r.Len() != len(payload) || !bytes.HasSuffix(in, payload) {
			t.Fatalf("%x: %v %v, %d %d, %v", in, to, same, r.Len(), len(payload), err)
		}
	})
}
