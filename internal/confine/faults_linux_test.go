package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/native"
	"github.com/tetherexec/tether/internal/sandbox/stage"
	"github.com/tetherexec/tether/internal/tethertest/soak"
	"github.com/tetherexec/tether/wire"
)

// noSuchCall is the number of a system call that the kernel does not have: it fails with ENOSYS.
const noSuchCall = 0xffff

// For each kind of step of a script, and in the second tier of tests for each system call: if it fails, the start is refused, the error names the step, and neither a process nor a mount
// nor a placeholder is left. Calls that are not reached in this start have no effect.
func TestEveryStepCanFail(t *testing.T) {
	b := newFixture(t, nil)
	for _, dir := range []string{"a/b", "a/c/d", "deep", "plain"} {
		if err := os.MkdirAll(filepath.Join(b.ws, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.ws, "plain/secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ws := b.ws
	orders := map[string]struct {
		entries string
		change  func(*Request)
	}{
		"workspace": {"read :root, write " + ws + ", deny " + ws + "/plain/secret, deny " + ws + "/a, write " + ws + "/a/b, read " + ws + "/a/c/d", func(*Request) {}},
		"minimal":   {"read :minimal, write " + ws + ", read " + ws + "/deep", func(r *Request) { r.Spec.Limits[proc.LimitFiles] = 64 }},
		"managed": {"read :root, write " + ws, func(r *Request) {
			gate := &testGate{listeners: 2}
			t.Cleanup(gate.close)
			r.EnforceManagedNetwork, r.Gate = true, gate
		}},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			r := b.request(intent(t, wire.NetworkRestricted, order.entries), "sh", "-c", "exit 7")
			order.change(&r)
			var wants []string // the error of each record; empty: it may fail
			b.confiner.spoil = func(s any, _ []byte) { wants = explainAll(s.(*native.Script)) }
			if o := b.must(r); o.code != 7 {
				t.Fatalf("without a failure: %d %s", o.code, o.text.String())
			}
			before := countMounts(t)
			refused, last := 0, ""
			for i, want := range wants {
				if want == "" {
					continue
				}
				if verb, _, _ := strings.Cut(want, " "); verb == last && !soak.Full() { // another call of the same kind of step
					continue
				} else {
					last = verb
				}
				b.confiner.spoil = func(s any, encoded []byte) { s.(*native.Script).Replace(encoded, i, noSuchCall) }
				o, err := b.run(r)
				b.confiner.spoil = nil
				switch {
				case err == nil && o.code == 7: // not reached
				case err == nil && strings.HasPrefix(want, "wait"):
					refused++ // the command was killed with process 1
				case err == nil:
					t.Errorf("record %d (%s): the command ended with %d", i, want, o.code)
				case !strings.Contains(err.Error(), want) && !isStartError(err):
					t.Errorf("record %d failed: %v, want %s", i, err, want)
				default:
					refused++
				}
			}
			if refused < 15 {
				t.Errorf("of %d records, only %d failed", len(wants), refused)
			}
			t.Logf("of %d records, %d failed", len(wants), refused)
			if after := countMounts(t); after != before {
				t.Errorf("%d mounts, %d before", after, before)
			}
			noneLeft(t, b)
		})
	}
}

// explainAll returns the error that each record of a script gives, which is freed once its command runs.
func explainAll(script *native.Script) []string {
	wants := make([]string, script.Records())
	for i := range wants {
		if script.MayReplace(i) {
			wants[i] = script.Explain(script.Address(i), uint64(syscall.ENOSYS)).Error()
		}
	}
	return wants
}

func isStartError(err error) bool {
	_, ok := errors.AsType[*proc.StartError](err)
	return ok
}

func countMounts(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// noneLeft checks that no child of this process and no placeholder is left.
func noneLeft(t *testing.T, b *fixture) {
	t.Helper()
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		if _, err := os.Lstat(filepath.Join(b.ws, name)); err == nil {
			t.Errorf("the placeholder %s is left", name)
		}
	}
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(children)) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err == nil && !strings.Contains(string(stat), ") Z ") {
				t.Errorf("a process is left: %s", stat)
			}
		}
	}
}

// A stage that ends before its first step, or whose script is damaged, refuses the start.
func TestDamagedScript(t *testing.T) {
	b := newFixture(t, nil)
	r := b.request(intent(t, wire.NetworkRestricted, "read :root"), "true")
	b.must(r)
	for name, spoil := range map[string]func([]byte){
		"all zero": func(e []byte) { clear(e) },
		"a jump to nowhere": func(e []byte) {
			copy(e[64:], []byte{1, 0, 1, 0}) // the first record jumps
		},
		"an unknown pseudo call": func(e []byte) { copy(e[64:], []byte{0xff, 0, 1, 0}) },
	} {
		b.confiner.spoil = func(_ any, encoded []byte) { spoil(encoded) }
		_, err := b.run(r)
		b.confiner.spoil = nil
		if _, ok := errors.AsType[*sandbox.UnenforceableError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	noneLeft(t, b)
}

// The error of a native sandbox that is not as planned says so.
func TestExplainedMismatch(t *testing.T) {
	l := &launch{script: new(native.Script)}
	err := l.explained(&stage.StepError{Errno: syscall.EIO, Address: 1})
	if err == nil || !strings.Contains(err.Error(), "unknown step") {
		t.Error(err)
	}
	if err := l.explained(fmt.Errorf("other")); err.Error() != "other" {
		t.Error(err)
	}
}
