package crash

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var (
	first  = NewPoint("test.first")
	second = NewPoint("test.second")
)

// effectsVariable makes this test program cause effects instead of running tests.
const effectsVariable = "CRASH_TEST_EFFECTS"

func TestMain(m *testing.M) {
	if os.Getenv(effectsVariable) == "" {
		os.Exit(m.Run())
	}
	Worker(1)
	defer os.Stdout.WriteString("deferred\n")
	for range 3 {
		first.Passed()
		os.Stdout.WriteString("first\n")
		second.PassedBy("it")
		os.Stdout.WriteString("second\n")
	}
	os.Stdout.WriteString("end\n")
}

// A process dies behind the chosen effect and causes no further one.
func TestProcessDiesBehindTheChosenEffect(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]struct {
		output string
		signal syscall.Signal
		stderr string
	}{
		"":                      {"first second first second first second end deferred", 0, ""},
		"1":                     {"", syscall.SIGKILL, ""},
		"4":                     {"first second first", syscall.SIGKILL, ""},
		"test.first:3":          {"first second first second", syscall.SIGKILL, ""},
		"test.second:1,kill":    {"first", syscall.SIGKILL, ""},
		"test.second:1,panic":   {"first deferred", 0, "death at test.second"},
		"test.second:1,segv":    {"first", 0, "SIGSEGV"},
		"test.second:9":         {"first second first second first second end deferred", 0, ""},
		"test.unknown:1":        {"first second first second first second end deferred", 0, ""},
		"test.second@it":        {"first", syscall.SIGKILL, ""},
		"test.second@other":     {"first second first second first second end deferred", 0, ""},
		"many":                  {"", 0, "not a positive number"},
		"test.first:1,sideways": {"", 0, "unknown way"},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), effectsVariable+"=1", Variable+"="+spec)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		stdout, err := cmd.Output()
		if got := strings.Join(strings.Fields(string(stdout)), " "); got != want.output {
			t.Errorf("%q: the process did %q, want %q", spec, got, want.output)
		}
		var signal syscall.Signal
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			signal = exit.Sys().(syscall.WaitStatus).Signal()
			signal = max(signal, 0)
		}
		if signal != want.signal || !strings.Contains(stderr.String(), want.stderr) {
			t.Errorf("%q: ended with %v, stderr %q", spec, err, stderr.String())
		}
	}
}

// A plan in a file is for one process: the next one lives.
func TestPlanInAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plan")
	if err := os.WriteFile(file, []byte("test.first:2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first second", "first second first second first second end deferred"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), effectsVariable+"=1", Variable+"=@"+file)
		stdout, _ := cmd.Output()
		if got := strings.Join(strings.Fields(string(stdout)), " "); got != want {
			t.Errorf("the process did %q, want %q", got, want)
		}
	}
}

func TestNames(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"test.first", "test.second"}) {
		t.Errorf("names: %v", got)
	}
}

// BenchmarkPassed is the cost of a point in a process that does not crash.
func BenchmarkPassed(b *testing.B) {
	for b.Loop() {
		first.Passed()
	}
}
