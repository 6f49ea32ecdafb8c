package native

import (
	"fmt"
	"syscall"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// A stepKind is what a step does to its path.
type stepKind uint8

const (
	stepBegin stepKind = iota
	stepLimit
	stepNetwork
	stepListen
	stepOwnNetwork
	stepSource
	stepSame
	stepTerminalSource
	stepProcfs
	stepRoot
	stepDev
	stepDevice
	stepFreeze
	stepMake
	stepBind
	stepMask
	stepSeal
	stepCover
	stepPrivileges
	stepCheckCapabilities
	stepCheckBounding
	stepCheckPrivileges
	stepFilter
	stepCheckFilter
	stepFind
	stepCheckMounted
	stepCheckReadOnly
	stepCheckSame
	stepCheckMemory
	stepCheckProcfs
	stepClone
	stepDescriptors
	stepSession
	stepTerminal
	stepDirectory
	stepProgram
	stepExecute
	stepRefuse
	stepReport
	stepWait
	stepEnter
	stepConnect
)

// stepTexts say what failed. Those with a path name it.
var stepTexts = [...]struct {
	text    string
	hasPath bool
	check   bool // the step compares, so the error leaves out the errno
}{
	stepBegin:             {text: "begin"},
	stepLimit:             {text: "set the limit of open files"},
	stepNetwork:           {text: "start the loopback interface"},
	stepListen:            {text: "listen inside"},
	stepOwnNetwork:        {text: "it is in the network of the server", check: true},
	stepSource:            {text: "open %s", hasPath: true},
	stepSame:              {text: "%s: it is not what was there when the sandbox was planned", hasPath: true, check: true},
	stepTerminalSource:    {text: "find the terminal"},
	stepProcfs:            {text: "make a procfs"},
	stepRoot:              {text: "make the root directory"},
	stepDev:               {text: "make %s", hasPath: true},
	stepDevice:            {text: "mount %s", hasPath: true},
	stepFreeze:            {text: "make %s read-only", hasPath: true},
	stepMake:              {text: "make %s", hasPath: true},
	stepBind:              {text: "mount %s", hasPath: true},
	stepMask:              {text: "hide %s", hasPath: true},
	stepSeal:              {text: "make %s read-only", hasPath: true},
	stepCover:             {text: "cover the symbolic link %s", hasPath: true},
	stepPrivileges:        {text: "drop the capabilities"},
	stepCheckCapabilities: {text: "capabilities are left", check: true},
	stepCheckBounding:     {text: "capabilities could be gained", check: true},
	stepCheckPrivileges:   {text: "new privileges are possible", check: true},
	stepFilter:            {text: "load the system call filter"},
	stepCheckFilter:       {text: "there is no system call filter", check: true},
	stepFind:              {text: "%s", hasPath: true},
	stepCheckMounted:      {text: "%s: nothing is mounted there", hasPath: true, check: true},
	stepCheckReadOnly:     {text: "%s: it can be written", hasPath: true, check: true},
	stepCheckSame:         {text: "%s: it is not what was there when the sandbox was planned", hasPath: true, check: true},
	stepCheckMemory:       {text: "%s: it is not in memory", hasPath: true, check: true},
	stepCheckProcfs:       {text: "%s: it is not a procfs", hasPath: true, check: true},
	stepClone:             {text: "make a process for the command"},
	stepDescriptors:       {text: "give the command its descriptors"},
	stepSession:           {text: "begin a session"},
	stepTerminal:          {text: "take the terminal"},
	stepDirectory:         {text: "enter %s", hasPath: true},
	stepProgram:           {text: "find %s", hasPath: true},
	stepExecute:           {text: "execute %s", hasPath: true},
	stepRefuse:            {text: "print why the command is refused"},
	stepReport:            {text: "report"},
	stepWait:              {text: "wait for the command"},
	stepEnter:             {text: "enter the network"},
	stepConnect:           {text: "connect to %s", hasPath: true},
}

// A step is a part of a script that fails as one.
type step struct {
	kind stepKind
	path string
}

func (s step) String() string {
	about := stepTexts[s.kind]
	if about.hasPath {
		return fmt.Sprintf(about.text, s.path)
	}
	return about.text
}

// Explain returns the error of the record at an address: a [proc.StartError] if the sandbox was as planned and the
// command could not be executed.
func (s *Script) Explain(address, errno uint64) error {
	reason := syscall.Errno(errno)
	at := (address - scriptBase - headerSize) / recordSize
	if address < scriptBase+headerSize || at >= uint64(len(s.records)) {
		return fmt.Errorf("an unknown step failed: %w", reason)
	}
	failed := s.steps[s.records[at].step]
	switch failed.kind {
	case stepDirectory:
		return &proc.StartError{Err: reason, Detail: fmt.Sprintf("working directory %q", failed.path)}
	case stepProgram:
		return &proc.StartError{Err: reason, Detail: failed.path}
	case stepExecute:
		return proc.ExecError(reason, failed.path)
	}
	if stepTexts[failed.kind].check && s.records[at].call >= firstPseudo {
		return fmt.Errorf("%w: %v", stage.ErrBroken, failed)
	}
	return fmt.Errorf("%v: %w", failed, reason)
}
