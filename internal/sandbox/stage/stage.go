package stage

import (
	"errors"
	"fmt"

	"github.com/tetherexec/tether/internal/reexec"
)

// A Config says what the stage checks and executes.
type Config struct {
	Argv []string
	Arg0 *string // what the command sees as argv[0], if not Argv[0]
	Env  []string
	Dir  string

	// Session: the command leads a session of its own. TTY: its standard
	// input is the terminal of that session.
	Session bool
	TTY     bool

	// NoStdin: the command's standard input is the sandbox's own /dev/null.
	NoStdin bool

	// Freeze (parts of the new procfs) and Seal (mounts) are made read-only by the
	// stage itself, which then gives up the capabilities that this needs.
	Freeze, Seal []string

	// Cover are symbolic links over which the stage mounts /dev/null, with
	// the same capabilities.
	Cover []string

	// Listen is how many listeners the stage opens on the loopback of the
	// sandbox's own network and passes to the server; Ports says which variables
	// get their port numbers.
	Listen int
	Ports  []Port

	// Outside is the network of the server, as returned by [Network]; 0:
	// unknown. A listener must not be in it.
	Outside uint64

	// OpenFiles is the command's limit of open files; 0: that of the stage.
	OpenFiles uint64

	// Refusal, if not empty, is printed instead of executing the command; the exit
	// status is [ExitRefused].
	Refusal string

	// Confined: this process must have no capabilities, must not be able to gain
	// any, and must be under a filter already.
	Confined bool
	// Filter is loaded before the command is executed; empty: none.
	Filter []byte

	Mounts []Mount
}

// ExitRefused is the exit status of a command that was refused.
const ExitRefused = 101

// A Port is a variable that is set to Prefix, the port number of a listener,
// and Suffix.
type Port struct {
	Variable, Prefix, Suffix string
	Listener                 int
}

// MaxListen bounds Listen.
const MaxListen = 64

// A Mount is what the stage must find at a path inside the sandbox.
type Mount struct {
	Path     string
	ReadOnly bool
	Kind     MountKind
	Dev, Ino uint64 // of MountBind

	// What follows is not encoded. Directory: Identify has found a directory. Blockable: a directory of another user
	// may be in the way of a process that is confined.
	Directory, Blockable bool
}

// MountKind is what is mounted.
type MountKind byte

// The kinds.
const (
	MountBind   MountKind = iota // the file or directory with this device and inode number
	MountMask                    // an empty directory in memory
	MountProc                    // a procfs, or a part of one
	MountDev                     // a file system in memory, with devices
	MountDevice                  // a device
)

// stageMagic begins an encoded Config. It changes with the encoding, because
// the program may be replaced while the server runs.
const stageMagic = "tether stage 4\n"

var errStage = errors.New("the stage cannot be decoded")

// Encode returns the Config as bytes.
func (s *Config) Encode() []byte {
	e := reexec.Encoder([]byte(stageMagic))
	e.List(s.Argv)
	e.Flag(s.Arg0 != nil)
	if s.Arg0 != nil {
		e.Text(*s.Arg0)
	}
	e.List(s.Env)
	e.Text(s.Dir)
	e.Flag(s.NoStdin)
	e.List(s.Freeze)
	e.List(s.Seal)
	e.List(s.Cover)
	e.Flag(s.Session)
	e.Flag(s.TTY)
	e.Flag(s.Confined)
	e.Text(string(s.Filter))
	e.Text(s.Refusal)
	e.Number(uint64(s.Listen))
	e.Number(s.Outside)
	e.Number(s.OpenFiles)
	e.Number(uint64(len(s.Ports)))
	for _, p := range s.Ports {
		e.List([]string{p.Variable, p.Prefix, p.Suffix})
		e.Number(uint64(p.Listener))
	}
	e.Number(uint64(len(s.Mounts)))
	for _, m := range s.Mounts {
		e.Text(m.Path)
		e.Flag(m.ReadOnly)
		e.Number(uint64(m.Kind))
		e.Number(m.Dev)
		e.Number(m.Ino)
	}
	return e
}

// Decode is the reverse of Encode.
func Decode(b []byte) (*Config, error) {
	if len(b) < len(stageMagic) || string(b[:len(stageMagic)]) != stageMagic {
		return nil, fmt.Errorf("%w: it was made by another version of tether; restart the server", errStage)
	}
	d := reexec.Decode(b[len(stageMagic):])
	s := &Config{Argv: d.List()}
	if d.Flag() {
		arg0 := d.Text()
		s.Arg0 = &arg0
	}
	s.Env = d.List()
	s.Dir = d.Text()
	s.NoStdin, s.Freeze, s.Seal, s.Cover = d.Flag(), d.List(), d.List(), d.List()
	s.Session, s.TTY, s.Confined = d.Flag(), d.Flag(), d.Flag()
	if filter := d.Text(); filter != "" {
		s.Filter = []byte(filter)
	}
	s.Refusal, s.Listen, s.Outside, s.OpenFiles = d.Text(), int(d.Number()), d.Number(), d.Number()
	for range d.Count(1) {
		p := Port{}
		if l := d.List(); len(l) == 3 {
			p.Variable, p.Prefix, p.Suffix = l[0], l[1], l[2]
		} else {
			d.Fail()
		}
		if p.Listener = int(d.Number()); p.Listener < 0 || p.Listener >= s.Listen {
			d.Fail()
		}
		s.Ports = append(s.Ports, p)
	}
	if s.Listen < 0 || s.Listen > MaxListen {
		d.Fail()
	}
	for range d.Count(1) {
		m := Mount{Path: d.Text(), ReadOnly: d.Flag(), Kind: MountKind(d.Number())}
		m.Dev, m.Ino = d.Number(), d.Number()
		if m.Kind > MountDevice {
			d.Fail()
		}
		s.Mounts = append(s.Mounts, m)
	}
	if !d.Done() || len(s.Argv) == 0 {
		return nil, errStage
	}
	return s, nil
}
