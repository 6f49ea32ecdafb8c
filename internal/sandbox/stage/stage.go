// Package stage is the last stage of a sandboxed start. It runs inside the
// sandbox, as our own program re-executed, makes sure that the sandbox is what
// it was meant to be, gives the command its descriptors, session and terminal,
// and becomes the command.
//
// The server tells it what to do with a [Config] in a descriptor, and hears on a
// socket how it went: the command was executed, or why not.
package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Config says what to check and what to execute.
type Config struct {
	Argv []string
	Arg0 *string // what the command sees as argv[0], if not Argv[0]
	Env  []string
	Dir  string

	// Session: the command leads a session of its own. TTY: with its standard
	// input as the terminal.
	Session bool
	TTY     bool

	// NoStdin: the command's standard input is the sandbox's own /dev/null.
	NoStdin bool

	// Freeze and Seal are made read-only by the stage itself, which is given the
	// right to do so for that long: parts of the new procfs, and mounts.
	Freeze, Seal []string

	// Cover is symbolic links that /dev/null is put over, in the same way.
	Cover []string

	// Listen is how many listeners are opened on the loopback of the sandbox's own
	// network and handed to the server; Ports says where their numbers go.
	Listen int
	Ports  []Port

	// Outside is the network of the server, as [Network] names it; 0: unknown. A
	// listener must not be in it.
	Outside uint64

	// Refusal, if not empty, is all that the command has to say before it exits with
	// [ExitRefused]; it is not executed.
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

// A Port is a variable that gets to know a listener: the variable becomes
// Prefix, the number of the port, and Suffix.
type Port struct {
	Variable, Prefix, Suffix string
	Listener                 int
}

// MaxListen bounds Listen.
const MaxListen = 64

// A Mount is what must be at a path, seen from inside.
type Mount struct {
	Path     string
	ReadOnly bool
	Kind     MountKind
	Dev, Ino uint64 // of MountBind
}

// MountKind is what is mounted.
type MountKind byte

// The kinds.
const (
	MountBind   MountKind = iota // the file or directory with this number
	MountMask                    // an empty directory in memory
	MountProc                    // a procfs, or a part of one
	MountDev                     // a file system in memory, with devices
	MountDevice                  // a device
)

// stageMagic begins an encoded stage. It changes with the encoding: the program
// may have been replaced while the server runs.
const stageMagic = "tether stage 3\n"

var errStage = errors.New("the stage cannot be decoded")

// Encode returns the stage as bytes.
func (s *Config) Encode() []byte {
	e := encoder([]byte(stageMagic))
	e.list(s.Argv)
	e.flag(s.Arg0 != nil)
	if s.Arg0 != nil {
		e.text(*s.Arg0)
	}
	e.list(s.Env)
	e.text(s.Dir)
	e.flag(s.NoStdin)
	e.list(s.Freeze)
	e.list(s.Seal)
	e.list(s.Cover)
	e.flag(s.Session)
	e.flag(s.TTY)
	e.flag(s.Confined)
	e.text(string(s.Filter))
	e.text(s.Refusal)
	e.number(uint64(s.Listen))
	e.number(s.Outside)
	e.number(uint64(len(s.Ports)))
	for _, p := range s.Ports {
		e.list([]string{p.Variable, p.Prefix, p.Suffix})
		e.number(uint64(p.Listener))
	}
	e.number(uint64(len(s.Mounts)))
	for _, m := range s.Mounts {
		e.text(m.Path)
		e.flag(m.ReadOnly)
		e.number(uint64(m.Kind))
		e.number(m.Dev)
		e.number(m.Ino)
	}
	return e
}

// Decode is the reverse of Encode.
func Decode(b []byte) (*Config, error) {
	if len(b) < len(stageMagic) || string(b[:len(stageMagic)]) != stageMagic {
		return nil, fmt.Errorf("%w: it was made by another version of tether; restart the server", errStage)
	}
	d := &decoder{rest: b[len(stageMagic):]}
	s := &Config{Argv: d.list()}
	if d.flag() {
		arg0 := d.text()
		s.Arg0 = &arg0
	}
	s.Env = d.list()
	s.Dir = d.text()
	s.NoStdin, s.Freeze, s.Seal, s.Cover = d.flag(), d.list(), d.list(), d.list()
	s.Session, s.TTY, s.Confined = d.flag(), d.flag(), d.flag()
	if filter := d.text(); filter != "" {
		s.Filter = []byte(filter)
	}
	s.Refusal, s.Listen, s.Outside = d.text(), int(d.number()), d.number()
	for range d.count() {
		p := Port{}
		if l := d.list(); len(l) == 3 {
			p.Variable, p.Prefix, p.Suffix = l[0], l[1], l[2]
		} else {
			d.broken = true
		}
		if p.Listener = int(d.number()); p.Listener < 0 || p.Listener >= s.Listen {
			d.broken = true
		}
		s.Ports = append(s.Ports, p)
	}
	if s.Listen < 0 || s.Listen > MaxListen {
		d.broken = true
	}
	for range d.count() {
		m := Mount{Path: d.text(), ReadOnly: d.flag(), Kind: MountKind(d.number())}
		m.Dev, m.Ino = d.number(), d.number()
		if m.Kind > MountDevice {
			d.broken = true
		}
		s.Mounts = append(s.Mounts, m)
	}
	if d.broken || len(d.rest) > 0 || len(s.Argv) == 0 {
		return nil, errStage
	}
	return s, nil
}

// encoder and decoder write numbers as varints, and texts and lists behind
// their lengths.
type encoder []byte

func (e *encoder) number(n uint64) { *e = binary.AppendUvarint(*e, n) }

func (e *encoder) flag(f bool) {
	if f {
		e.number(1)
	} else {
		e.number(0)
	}
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) list(l []string) {
	e.number(uint64(len(l)))
	for _, s := range l {
		e.text(s)
	}
}

type decoder struct {
	rest   []byte
	broken bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.broken, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count is a number of things of which each takes at least one byte.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.broken, d.rest = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) flag() bool {
	n := d.number()
	if n > 1 {
		d.broken = true
	}
	return n == 1
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) list() []string {
	var l []string
	for range d.count() {
		l = append(l, d.text())
	}
	return l
}
