//go:build !linux && !darwin

package proc

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/tetherexec/tether/internal/account"
)

// Processes cannot be started here yet, so only launch is ever called.

type host struct{}

func newHost(*Supervisor) *host { return &host{} }
func (h *host) close()          {}

func (h *host) launch(context.Context, Spec) (*child, error) {
	return nil, fmt.Errorf("%w: %s", ErrUnsupported, runtime.GOOS)
}

type processTable struct{}

func readProcessTable() processTable { return processTable{} }

// ResetInherited does nothing here.
func ResetInherited() error { return nil }

type child struct {
	pid     int
	tty     bool
	stdin   *os.File
	outputs []endpoint
	tree    tree

	kept      *kept // always nil: there is no keeper here
	launched  Launched
	limited   Enforced // its limits
	inherited uint64
}

func (c *child) wait() ending                                 { return ending{code: -1} }
func (c *child) groups() account.Groups                       { return account.Groups{} }
func (c *child) close()                                       {}
func (c *child) abandon()                                     {}
func (c *child) awaitInit() *account.Figures                  { return nil }
func (c *child) resize(rows, cols uint16) error               { return ErrUnsupported }
func (c *child) terminalSize() (rows, cols uint16, err error) { return 0, 0, ErrUnsupported }
func (c *child) signalGroup(syscall.Signal) error             { return ErrUnsupported }

func killGroup(int)                                {}
func readDescriptor(uintptr, []byte) (int, error)  { return 0, ErrUnsupported }
func writeDescriptor(uintptr, []byte) (int, error) { return 0, ErrUnsupported }
func growPipe(uintptr, int) bool                   { return false }
func eofChar(uintptr) (byte, bool)                 { return 0, false }

func (c *child) gone() bool { return false }
