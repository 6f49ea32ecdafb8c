package stage

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The mounts of this machine are checked as the mounts of a sandbox are.
func TestMountsAreVerified(t *testing.T) {
	identity := func(path string) Mount {
		m := Mount{Path: path}
		f, err := m.Identify(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		return m
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	root := identity("/")
	other := root
	other.Ino++
	frozen := root
	frozen.ReadOnly = true
	behindLink := root
	behindLink.Path = link
	throughLink := Mount{Path: filepath.Join(link, "proc"), Kind: MountProc}
	for _, row := range []struct {
		name  string
		mount Mount
		want  string // part of the error; empty: none
	}{
		{"the root", root, ""},
		{"something else", other, "not what was there"},
		{"writable", frozen, "can be written"},
		{"a link", behindLink, "too many levels"},
		{"through a link", throughLink, "too many levels"},
		{"no mount", identity(dir), "nothing is mounted"},
		{"missing", Mount{Path: filepath.Join(dir, "missing")}, "no such file"},
		{"a procfs", Mount{Path: "/proc", Kind: MountProc}, ""},
		{"no procfs", Mount{Path: "/", Kind: MountProc}, "not a procfs"},
		{"no mask", Mount{Path: "/proc", Kind: MountMask}, "not in memory"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.name == "writable" && readOnlyRoot(t) {
				t.Skip("the root of this machine is read-only")
			}
			err := row.mount.verify()
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("verified: %v, want %q", err, row.want)
			}
		})
	}
}

func readOnlyRoot(t *testing.T) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err != nil {
		t.Fatal(err)
	}
	return fs.Flags&unix.ST_RDONLY != 0
}

// A process that is not confined fails the check for confined processes.
func TestPrivilegesAreVerified(t *testing.T) {
	if err := (&Config{Confined: true}).verify(); err == nil {
		t.Error("the check accepts this test process, which is not confined")
	}
}

func TestChannel(t *testing.T) {
	for _, row := range []struct {
		name string
		say  func(fd int)
		want error
	}{
		{"executed", func(fd int) { send(fd, []byte{reportReady}, nil) }, nil},
		{"never reached", func(int) {}, io.ErrUnexpectedEOF},
		{"failed", func(fd int) {
			send(fd, []byte{reportReady}, nil)
			send(fd, reportOf(unix.ENOENT), nil)
		}, ErrBroken},
	} {
		t.Run(row.name, func(t *testing.T) {
			channel, theirs, err := NewChannel()
			if err != nil {
				t.Fatal(err)
			}
			defer channel.Close()
			row.say(int(theirs.Fd()))
			theirs.Close()
			if _, _, err := channel.Await(t.Context(), nil); !errors.Is(err, row.want) {
				t.Errorf("awaited: %v, want %v", err, row.want)
			}
		})
	}
}

func TestChannelPassesProcesses(t *testing.T) {
	channel, theirs, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer channel.Close()
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	send(int(theirs.Fd()), []byte{reportReady}, unix.UnixRights(self, self))
	unix.Close(self)
	theirs.Close()
	launched, _, err := channel.Await(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer launched.Close()
	if launched.Pid != os.Getpid() || launched.Leader == nil || launched.Init == nil {
		t.Errorf("received %+v", launched)
	}
	if err := unix.PidfdSendSignal(int(launched.Leader.Fd()), 0, nil, 0); err != nil {
		t.Errorf("the descriptor names no process: %v", err)
	}
}

func TestAwaitEndsWithContext(t *testing.T) {
	channel, theirs, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer channel.Close()
	defer theirs.Close()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, _, err := channel.Await(ctx, nil); !errors.Is(err, enough) {
		t.Errorf("awaited: %v", err)
	}
}
