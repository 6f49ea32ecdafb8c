package observe

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/proc"
)

// HasListeners reports whether this system shows which process listens.
const HasListeners = true

// Limits of one search for listeners.
const (
	listenersTime = time.Second
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

// A listenerSearch is the state of one search.
type listenerSearch struct {
	look
	own      string                               // the network of this program
	networks map[string]map[uint64]netip.AddrPort // the listening sockets of each network, by inode
	count    int
}

func newListenerSearch() *listenerSearch {
	s := &listenerSearch{look: look{deadline: time.Now().Add(listenersTime)}, networks: map[string]map[uint64]netip.AddrPort{}}
	// The main thread, that of /proc/self, may be one that starts processes in another network.
	s.own, _ = os.Readlink("/proc/thread-self/ns/net")
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
