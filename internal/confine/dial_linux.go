package confine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/internal/sandbox/native"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// dialImage has the program of the processes that connect sockets in other networks.
var dialImage imageOnce

// An imageOnce is a program in memory that is made when it is needed first. If that fails, for example because this program has too many open files, it is tried
// again the next time.
type imageOnce struct {
	mu   sync.Mutex
	file *os.File
}

func (i *imageOnce) get(program func() ([]byte, error)) (*os.File, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.file != nil {
		return i.file, nil
	}
	content, err := program()
	if err == nil {
		i.file, err = sealed("dial", bytes.NewReader(content))
	}
	return i.file, err
}

// Dial connects a socket in another network, to an address there. A process of a few system calls enters the network, makes and connects the socket, sends
// it here and ends, after 20 s at the latest. Nothing of it is left inside but the connection.
func Dial(ctx context.Context, network *os.File, to netip.AddrPort) (net.Conn, error) {
	image, err := dialImage.get(native.Image)
	if err != nil {
		return nil, fmt.Errorf("connections into a network of its own: %w", err)
	}
	owner, err := ownerOf(network)
	if err != nil {
		return nil, fmt.Errorf("find the owner of the network: %s", oserr.Text(err))
	}
	defer owner.Close() // nil, too
	script := native.Dial(owner != nil, to)
	defer script.Free()
	encoded, err := script.Encode()
	if err != nil {
		return nil, err
	}
	file, err := inMemory("script", encoded)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	channel, theirs, err := stage.NewChannel()
	if err != nil {
		return nil, err
	}
	defer channel.Close()
	cmd := exec.CommandContext(ctx, at.ProcPath(native.NetworkFile+1))
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{nil, nil, nil, file, theirs, owner, network, image} // from descriptor 3 on
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("start a process for a network of its own: %w", cmp.Or(context.Cause(ctx), err))
	}
	defer cmd.Wait() // it has ended, or ends with ctx or its timer
	launched, sockets, err := channel.Await(ctx, nil)
	launched.Close()
	defer closeFiles(sockets)
	if step, ok := errors.AsType[*stage.StepError](err); ok {
		err = script.Explain(step.Address, uint64(step.Errno))
	}
	switch {
	case err == io.ErrUnexpectedEOF && ctx.Err() == nil:
		return nil, errors.New("the listener does not answer")
	case err != nil:
		return nil, err
	}
	if len(sockets) != 1 {
		return nil, errors.New("no socket came out of the network")
	}
	own, err := ownNetwork()
	if err != nil {
		return nil, err
	}
	if its, err := stage.Network(int(sockets[0].Fd())); err != nil || its == own && own != 0 {
		return nil, errors.New("the socket is in the network of the server") // an error is no proof that it is not
	}
	return net.FileConn(sockets[0])
}

func closeFiles(list []*os.File) {
	for _, f := range list {
		f.Close()
	}
}

// ownerOf returns the user namespace that owns a network; nil: that of this program does.
func ownerOf(network *os.File) (*os.File, error) {
	fd, err := unix.IoctlRetInt(int(network.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return nil, err
	}
	owner := os.NewFile(uintptr(fd), "owner")
	var its, own unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &its), unix.Stat("/proc/self/ns/user", &own)); err != nil {
		owner.Close()
		return nil, err
	}
	if its.Dev == own.Dev && its.Ino == own.Ino {
		owner.Close()
		return nil, nil
	}
	return owner, nil
}
