//go:build !linux || !(amd64 || arm64)

package keep

import (
	"context"
	"errors"
	"os"
)

// errOther is the reason why there is no keeper on this system.
var errOther = errors.New("a keeper needs Linux on x86-64 or arm64")

// Probe says that this system has no keeper.
func Probe() error { return errOther }

// A Beginning does not exist on this system.
type Beginning struct{}

// Begin says that this system has no keeper.
func Begin() (*Beginning, error) { return nil, errOther }

func (*Beginning) Cancel()             {} // never called
func (*Beginning) Become(Config) error { return errOther }

// OpenProgram says that this system has no keeper.
func OpenProgram(string) (*os.File, error) { return nil, errOther }

// A Worker does not exist on this system.
type Worker struct{}

// Connect says that this system has no keeper.
func Connect() (*Worker, error) { return nil, errOther }

// The methods are never called, because there is no Worker.

func (*Worker) Receive() ([]Held, Order, bool, error)     { return nil, Order{}, false, errOther }
func (*Worker) Orphaned() bool                            { return false }
func (*Worker) Serve(Events)                              {}
func (*Worker) Close() error                              { return errOther }
func (*Worker) Hold(...Held) error                        { return errOther }
func (*Worker) Drop(slot, which int32) error              { return errOther }
func (*Worker) Free(slot int32) error                     { return errOther }
func (*Worker) Status(context.Context, int) (Exit, error) { return Exit{}, errOther }
func (*Worker) Reap(int) error                            { return errOther }
func (*Worker) Ready() error                              { return errOther }
func (*Worker) Beat() error                               { return errOther }
func (*Worker) Leave(int) error                           { return errOther }
func (*Worker) Bye() error                                { return errOther }
func (*Worker) Upgrade(context.Context, *os.File) error   { return errOther }
func (*Worker) Renew(context.Context) error               { return errOther }
