package native

import (
	"encoding/binary"
	"fmt"
)

// A model carries out a script as the stage does, but asks call for the results of system calls. It shares nothing with the
// assembly but the layout of a script.
type model struct {
	memory []byte // from scriptBase on
	call   func(nr uint32, args [6]uint64) uint64
	report []byte // of a failure
	left   int    // how many records may still be carried out; a script that never ends is a failure of the test
}

// exited ends a model; the number is the exit code.
type exited int

func (m *model) load(address uint64) uint64 {
	return binary.LittleEndian.Uint64(m.memory[address-scriptBase:])
}

func (m *model) store(address, v uint64) {
	binary.LittleEndian.PutUint64(m.memory[address-scriptBase:], v)
}

// run returns the exit code.
func (m *model) run() (code int, err error) {
	defer func() {
		if e := recover(); e != nil {
			if exit, ok := e.(exited); ok {
				code = int(exit)
				return
			}
			err = fmt.Errorf("the model failed: %v", e)
		}
	}()
	for at := uint64(scriptBase + headerSize); ; {
		if m.left--; m.left < 0 {
			return 0, fmt.Errorf("the script does not end")
		}
		at = m.carryOut(at)
	}
}

// carryOut returns the address of the next record.
func (m *model) carryOut(at uint64) (next uint64) {
	head := m.load(at)
	nr, flags := uint32(head), uint32(head>>32)
	var args [6]uint64
	for i := range args {
		args[i] = m.load(at + 8 + 8*uint64(i))
		if flags&(1<<i) != 0 {
			args[i] = m.load(args[i])
		}
	}
	result := m.load(at + 56)
	next = at + recordSize
	switch nr {
	case callCompare:
		if args[0]&args[1] != args[2] {
			m.fail(at, args[3])
		}
	case callJump:
		return args[0]
	case callJumpEqual:
		if args[0]&args[1] == args[2] {
			return args[3]
		}
	case callSet:
		m.store(result, args[0])
	case callAdd:
		m.store(result, args[0]+args[1])
	case callFail:
		m.fail(at, args[0])
	case callExitLike:
		if signal := args[0] & 0x7f; signal != 0 {
			panic(exited(128 + signal))
		}
		panic(exited(args[0] >> 8 & 0xff))
	default:
		if nr >= firstPseudo {
			m.fail(at, 38)
		}
		answer := m.call(nr, args)
		if result != 0 {
			m.store(result, answer)
		}
		if answer > ^uint64(4095) && flags&mayFailFlag == 0 {
			m.fail(at, -answer)
		}
	}
	return next
}

func (m *model) fail(at, errno uint64) {
	m.store(scriptBase+headerErrno, errno)
	m.store(scriptBase+headerRecord, at)
	m.report = append([]byte(nil), m.memory[:24]...)
	panic(exited(exitBroken))
}
