//go:build amd64 || arm64

package native

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A run is what a process that executes a script does.
type run struct {
	code   int
	output string // what it writes to descriptor 1
	report string // what it writes to reportFile
}

// carryOut executes the stage with a script.
func carryOut(t *testing.T, script []byte) (r run) {
	t.Helper()
	program, err := Image()
	if err != nil {
		t.Fatal(err)
	}
	image := memoryFile(t, program)
	defer image.Close()
	file := memoryFile(t, script)
	defer file.Close()
	outRead, outWrite := pipe(t)
	reportRead, reportWrite := pipe(t)
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", imageFile))
	cmd.Env = []string{}
	cmd.Stdout = outWrite
	cmd.ExtraFiles = []*os.File{nil, nil, nil, file, reportWrite, image}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outWrite.Close()
	reportWrite.Close()
	output, _ := io.ReadAll(outRead)
	report, _ := io.ReadAll(reportRead)
	cmd.Wait()
	if !cmd.ProcessState.Exited() {
		t.Fatalf("the stage ended with %v; it wrote %q", cmd.ProcessState, output)
	}
	return run{cmd.ProcessState.ExitCode(), string(output), string(report)}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func memoryFile(t *testing.T, content []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "test")
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

// failure is the result of a system call that fails.
func failure(errno syscall.Errno) uint64 { return -uint64(errno) }

// modelled carries out a script in the model. It knows the calls of the scripts of TestStage.
func modelled(t *testing.T, script []byte) (r run) {
	t.Helper()
	m := &model{memory: bytes.Clone(script), left: 10_000}
	m.call = func(nr uint32, args [6]uint64) uint64 {
		switch nr {
		case unix.SYS_WRITE:
			if args[0] != 1 {
				return failure(unix.EBADF)
			}
			r.output += string(m.memory[args[1]-scriptBase:][:args[2]])
			return args[2]
		case unix.SYS_EXIT_GROUP:
			panic(exited(args[0]))
		}
		return failure(unix.ENOSYS)
	}
	var err error
	if r.code, err = m.run(); err != nil {
		t.Fatal(err)
	}
	r.report = string(m.report)
	return r
}

// print lets a script write a text.
func (s *Script) print(text string) *record {
	return s.call(unix.SYS_WRITE, number(1), s.text(text), number(len(text)))
}

// The assembly does what the model does, for every pseudo call, every way to pass an argument and every outcome.
func TestStage(t *testing.T) {
	exit := func(s *Script, code int) { s.call(unix.SYS_EXIT_GROUP, number(code)) }
	for name, write := range map[string]func(s *Script){
		"exit": func(s *Script) { exit(s, 7) },
		"write": func(s *Script) {
			s.print("hello\n")
			exit(s, 0)
		},
		"contents": func(s *Script) {
			text := "by content\n"
			fd, at, n, code := s.cell(), s.cell(), s.cell(), s.cell()
			s.call(callSet, number(1)).into(fd)
			s.call(callSet, s.text(text)).into(at)
			s.call(callSet, number(len(text))).into(n)
			s.call(unix.SYS_WRITE, fd.content(), at.content(), n.content(), number(0), number(0), number(0)).into(code)
			s.call(unix.SYS_EXIT_GROUP, code.content())
		},
		"all six contents": func(s *Script) {
			// The kernel ignores the last three arguments of a write: the cells are read all the same.
			cells := make([]value, 6)
			for i := range cells {
				c := s.cell()
				cells[i] = c.content()
				s.call(callSet, []value{number(1), s.text("six\n"), number(4), number(11), number(12), number(13)}[i]).into(c)
			}
			s.call(unix.SYS_WRITE, cells...)
			exit(s, 3)
		},
		"a pointer in the data": func(s *Script) {
			at := s.cell()
			s.pointTo(at, s.text("pointed\n"))
			s.call(unix.SYS_WRITE, number(1), at.content(), number(8))
			exit(s, 0)
		},
		"compare equal": func(s *Script) {
			s.require(number(0x1234), number(0xff), number(0x34), 5)
			s.require(everything, everything, everything, 5)
			exit(s, 1)
		},
		"compare different": func(s *Script) {
			s.step(stepRoot, "")
			s.require(number(0x1234), number(0xff), number(0x12), 5)
			exit(s, 1)
		},
		"compare upper half": func(s *Script) {
			s.require(number(uint64(1)<<40), everything, number(0), 6)
			exit(s, 1)
		},
		"jump": func(s *Script) {
			over := s.label()
			s.jump(over)
			s.print("skipped\n")
			s.place(over)
			exit(s, 2)
		},
		"loop": func(s *Script) {
			again, over, turn := s.label(), s.label(), s.cell()
			s.place(again)
			s.print("turn\n")
			s.jumpEqual(turn.content(), everything, number(1), over)
			s.call(callSet, number(1)).into(turn)
			s.jump(again)
			s.place(over)
			exit(s, 0)
		},
		"count": func(s *Script) {
			again, over, turn := s.label(), s.label(), s.cell()
			s.place(again)
			s.print("turn\n")
			s.call(callAdd, turn.content(), number(uint64(1)<<40|1)).into(turn)
			s.jumpEqual(turn.content(), number(0xff), number(5), over)
			s.jump(again)
			s.place(over)
			s.require(turn.content(), everything, number(uint64(5)<<40|5), 5)
			exit(s, 4)
		},
		"jump not equal": func(s *Script) {
			over := s.label()
			s.jumpEqual(number(uint64(3)<<40), everything, number(0), over)
			s.print("not skipped\n")
			s.place(over)
			exit(s, 0)
		},
		"fail": func(s *Script) { s.call(callFail, number(17)) },
		"unknown pseudo call": func(s *Script) {
			s.call(callAdd+1, number(17))
		},
		"a call fails": func(s *Script) {
			s.print("before\n")
			s.call(unix.SYS_WRITE, number(99), s.text("x"), number(1))
			s.print("after\n")
		},
		"a call may fail": func(s *Script) {
			c, fine := s.cell(), s.label()
			s.call(unix.SYS_WRITE, number(99), s.text("x"), number(1)).into(c).mayFail()
			s.jumpEqual(c.content(), everything, number(-int64(unix.EBADF)), fine)
			exit(s, 1)
			s.place(fine)
			negative := s.label()
			s.jumpEqual(c.content(), signBit, signBit, negative)
			exit(s, 2)
			s.place(negative)
			exit(s, 9)
		},
		"the header is clean": func(s *Script) {
			fine := s.label()
			s.jumpEqual(value{isHeader, headerErrno}, everything, number(0), fine)
			exit(s, 1)
			s.place(fine)
			exit(s, 0)
		},
		"exit like exit 42":           func(s *Script) { s.call(callExitLike, number(42<<8)) },
		"exit like exit 255":          func(s *Script) { s.call(callExitLike, number(255<<8)) },
		"exit like exit 0":            func(s *Script) { s.call(callExitLike, number(0)) },
		"exit like killed":            func(s *Script) { s.call(callExitLike, number(9)) },
		"exit like core dump":         func(s *Script) { s.call(callExitLike, number(11|0x80)) },
		"exit like the last signal":   func(s *Script) { s.call(callExitLike, number(64)) },
		"exit ignores the upper half": func(s *Script) { s.call(callExitLike, number(uint64(0xabcd)<<32|5<<8)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			s.step(stepBegin, "")
			write(s)
			script, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := carryOut(t, script), modelled(t, script); got != want {
				t.Errorf("the stage: %+v\nthe model: %+v\n%v", got, want, s)
			}
		})
	}
}

// A failure names the record and the error.
func TestFailureIsExplained(t *testing.T) {
	s := newScript()
	s.step(stepBegin, "")
	s.print("")
	s.step(stepSource, "/some/path")
	s.call(unix.SYS_CLOSE, number(99))
	script, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r := carryOut(t, script)
	if r.code != exitBroken || len(r.report) != 24 || r.report[0] != 'S' {
		t.Fatalf("%+v", r)
	}
	report := []byte(r.report)
	err = s.Explain(binary.LittleEndian.Uint64(report[16:]), binary.LittleEndian.Uint64(report[8:]))
	if err == nil || err.Error() != "open /some/path: bad file descriptor" {
		t.Errorf("explained as %v", err)
	}
}

// A stage without a script ends and does nothing.
func TestStageWithoutScript(t *testing.T) {
	if r := carryOut(t, nil); r != (run{code: exitBroken}) {
		t.Errorf("%+v", r)
	}
}

// The text of the stage is all of it, small, and works at another address: it refers to nothing outside.
func TestStageIsSelfContained(t *testing.T) {
	text, err := stageText()
	if err != nil || len(text) < 100 || len(text) > 1024 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	t.Logf("the stage has %d bytes", len(text))
	s := newScript()
	s.step(stepBegin, "")
	s.print("elsewhere\n")
	s.call(callExitLike, number(3<<8))
	script, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got := carryOut(t, script); got.output != "elsewhere\n" || got.code != 3 {
		t.Errorf("%+v", got)
	}
}

// The image is a program for this processor, which another program than the kernel can read too.
func TestImage(t *testing.T) {
	program, err := Image()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "stage")
	if err := os.WriteFile(name, program, 0o700); err != nil {
		t.Fatal(err)
	}
	err = exec.Command(name).Run() // without a script
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitBroken {
		t.Errorf("executed as a file: %v", err)
	}
}
