package observe

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/proc"
)

// HasListeners reports whether this system shows which process listens.
const HasListeners = true

// Limits of one search for listeners. On an idle machine a search takes milliseconds.
const (
	listenersTime = 10 * time.Second
	maxListeners  = 1024     // of all processes together
	maxSockets    = 16 << 20 // bytes of the table of sockets of a network
)

// Listeners finds the listeners of processes and of everything that they have started. partial means that some may be missing: there are too many, or the
// system hides something.
func Listeners(list []*proc.Process) (found map[*proc.Process][]Listener, partial bool) {
	s := newListenerSearch()
	found = map[*proc.Process][]Listener{}
	finder := proc.NewFinder()
	for _, p := range list {
		seen := map[uint64]bool{} // a child has the sockets of its parent
		for _, pid := range finder.Members(p) {
			if s.late() || s.count >= maxListeners {
				return found, true
			}
			found[p] = append(found[p], s.of(pid, seen)...)
		}
	}
	return found, s.partial
}

// Inside finds a listener of a process, or of something that it has started, in a network of its own. It returns that network, and where connections to the
// listener go there. The network is that of a process that was a part of the tree when it was opened, whatever its pid is used for later.
func Inside(p *proc.Process, port uint16) (network *os.File, to netip.AddrPort, err error) {
	s := newListenerSearch()
	members := proc.NewFinder().Members(p)
	for _, find := range []func(handle, pid int, port uint16) (netip.Addr, bool){copying.address, s.addressByTable} {
		for _, pid := range members {
			if s.late() {
				break
			}
			if network, to = s.inside(p, pid, port, find); network != nil {
				return network, to, nil
			}
		}
	}
	return nil, to, ErrNotInside
}

// inside is Inside for one process; nil: it has no such listener, or is no part of the tree.
func (s *listenerSearch) inside(p *proc.Process, pid int, port uint16, find func(handle, pid int, port uint16) (netip.Addr, bool)) (network *os.File, to netip.AddrPort) {
	if name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil || name == s.own {
		return nil, to // the table of the machine's sockets can be long
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, to
	}
	defer unix.Close(handle)
	address, found := find(handle, pid, port)
	if !found || !slices.Contains(proc.NewFinder().Members(p), pid) {
		return nil, to
	}
	network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, to
	}
	own, err := isOwnNetwork(network)
	if err != nil || own || unix.PidfdSendSignal(handle, 0, nil, 0) != nil { // the process has left its network, or the pid may be that of another one
		network.Close()
		return nil, to
	}
	switch address = address.Unmap(); {
	case address == netip.IPv4Unspecified():
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case address == netip.IPv6Unspecified():
		address = netip.IPv6Loopback()
	}
	return network, netip.AddrPortFrom(address, port)
}

// addressByTable is copies.address by the table of sockets, for a process whose descriptors cannot be copied.
func (s *listenerSearch) addressByTable(_, pid int, port uint16) (netip.Addr, bool) {
	for _, l := range s.of(pid, map[uint64]bool{}) {
		if l.Inside && l.Address.Port() == port {
			return l.Address.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// ownNetwork is the network of this program. The main thread, that of /proc/self, may be one that starts processes in another network.
const ownNetwork = "/proc/thread-self/ns/net"

func isOwnNetwork(network *os.File) (bool, error) {
	var its, own unix.Stat_t
	err := errors.Join(unix.Fstat(int(network.Fd()), &its), unix.Stat(ownNetwork, &own))
	return its.Dev == own.Dev && its.Ino == own.Ino, err
}

// A listenerSearch is the state of one search.
type listenerSearch struct {
	look
	own      string                               // the network of this program
	networks map[string]map[uint64]netip.AddrPort // the listening sockets of each network, by inode
	count    int
}

func newListenerSearch() *listenerSearch {
	s := &listenerSearch{look: look{deadline: time.Now().Add(listenersTime)}, networks: map[string]map[uint64]netip.AddrPort{}}
	s.own, _ = os.Readlink(ownNetwork)
	return s
}

// of finds the listeners of one process.
func (s *listenerSearch) of(pid int, seen map[uint64]bool) (list []Listener) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	network, err := os.Readlink(dir + "ns/net")
	if err != nil {
		s.partial = s.partial || !os.IsNotExist(err) // else it has ended
		return nil
	}
	sockets, known := s.networks[network]
	if !known {
		sockets = map[uint64]netip.AddrPort{}
		addSockets(sockets, dir+"net/tcp")
		addSockets(sockets, dir+"net/tcp6")
		s.networks[network] = sockets
	}
	if len(sockets) == 0 {
		return nil
	}
	descriptors, err := os.Open(dir + "fd")
	if err != nil {
		s.partial = true
		return nil
	}
	defer descriptors.Close()
	names, _ := descriptors.Readdirnames(maxDescriptors + 1)
	s.partial = s.partial || len(names) > maxDescriptors
	for _, name := range names {
		f, ok := fileOf(dir + "fd/" + name)
		address, listens := sockets[f.ID.Ino]
		if !ok || f.Kind != FileSocket || !listens || seen[f.ID.Ino] || s.count >= maxListeners {
			continue
		}
		seen[f.ID.Ino] = true
		s.count++
		stat, _ := readStat(dir + "stat")
		list = append(list, Listener{Address: address, PID: pid, Name: stat.name, Inside: network != s.own})
	}
	return list
}

// addSockets adds the listening sockets of a table of /proc.
func addSockets(sockets map[uint64]netip.AddrPort, path string) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxSockets))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != "0A" { // it does not listen
			continue
		}
		inode, err := strconv.ParseUint(fields[9], 10, 64)
		if address, ok := socketAddress(fields[1]); ok && err == nil {
			sockets[inode] = address
		}
	}
}

// socketAddress reads an address of /proc: words of 4 bytes in the order of the processor, and a port.
func socketAddress(text string) (netip.AddrPort, bool) {
	words, portText, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(words)
	port, portErr := strconv.ParseUint(portText, 16, 16)
	if err != nil || portErr != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	address, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(address, uint16(port)), ok
}
