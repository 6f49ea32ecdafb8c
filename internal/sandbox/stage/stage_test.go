package stage

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/proc"
)

func example() *Config {
	arg0 := "-sh"
	return &Config{
		Argv: []string{"/bin/sh", "-c", "echo \xff", ""}, Arg0: &arg0, Env: []string{"A=1", "B="}, Dir: "/ws",
		Listen: 2, Outside: 1 << 50, OpenFiles: 64, Ports: []Port{{"P", "http://127.0.0.1:", "/x", 1}}, Refusal: "no",
		NoStdin: true, Freeze: []string{"/proc/sys"}, Seal: []string{"/ws/.git", "/ws/.codex"}, Cover: []string{"/tmp/.git"},
		Session: true, TTY: true, Confined: true, Filter: []byte{1, 2, 3},
		Mounts: []Mount{
			{Path: "/", ReadOnly: true, Dev: 1 << 40, Ino: 2},
			{Path: "/proc", Kind: MountProc},
			{Path: "/ws/.git", Kind: MountMask, ReadOnly: true},
		},
	}
}

func TestStageRoundTrip(t *testing.T) {
	for _, want := range []*Config{example(), {Argv: []string{"true"}}} {
		got, err := Decode(want.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// If the program was replaced while the server runs, the new program finds an
// encoding that it does not know, and the error says to restart the server.
func TestStageOfAnotherVersion(t *testing.T) {
	encoded := example().Encode()
	encoded[len(stageMagic)-2]++
	if _, err := Decode(encoded); err == nil || !strings.Contains(err.Error(), "restart the server") {
		t.Errorf("decoded: %v", err)
	}
}

func TestTruncatedStageIsRefused(t *testing.T) {
	encoded := example().Encode()
	for n := range encoded {
		if s, err := Decode(encoded[:n]); err == nil {
			t.Fatalf("the first %d bytes were decoded as %+v", n, s)
		}
	}
	if _, err := Decode(append(encoded, 0)); err == nil {
		t.Error("bytes behind the end were accepted")
	}
}

func FuzzStage(f *testing.F) {
	f.Add(example().Encode())
	f.Add((&Config{Argv: []string{"x"}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(s.Encode())
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}

func TestReports(t *testing.T) {
	start := &proc.StartError{Err: syscall.EACCES, Detail: `program "x"`}
	_, err := parseReport(reportOf(start))
	var got *proc.StartError
	if !errors.As(err, &got) || *got != *start {
		t.Errorf("%v became %v", start, err)
	}
	_, err = parseReport(reportOf(errors.New("capabilities are left")))
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "capabilities are left") {
		t.Errorf("became %v", err)
	}
	if n := len(reportOf(errors.New(strings.Repeat("x", 1<<20)))); n > maxReport {
		t.Errorf("a report has %d bytes", n)
	}
	if ready, err := parseReport([]byte{reportReady}); !ready || err != nil {
		t.Errorf("ready is %v, %v", ready, err)
	}
}

func FuzzReport(f *testing.F) {
	f.Add([]byte{reportReady})
	f.Add(reportOf(&proc.StartError{Err: syscall.ENOENT}))
	f.Add([]byte{reportExec, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if ready, err := parseReport(b); ready == (err != nil) {
			t.Errorf("%q: ready %v, %v", b, ready, err)
		}
	})
}
