package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/tethertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// beTether, if set, makes the test binary behave as the program.
const beTether = "TETHER_TEST_BE_TETHER"

// leakChecked runs the tests and then checks that no goroutine is left.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	code := m.M.Run()
	for _, dir := range builtDirs {
		os.RemoveAll(dir)
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// builtDirs hold the programs that tests have built.
var (
	builtMu   sync.Mutex
	builtDirs []string
)

func TestMain(m *testing.M) {
	if os.Getenv(beTether) != "" {
		beVariant()
		main()
	}
	tethertest.StopIgnoringSignals()
	testscript.Main(leakChecked{m}, map[string]func(){"tether": main})
}

// beVariant makes this program what the name of its file says: version-X has the version X, and the others do something
// wrong as a worker.
func beVariant() {
	path, _ := os.Executable()
	name := filepath.Base(path)
	version, _ = strings.CutPrefix(name, "version-")
	if version == name {
		version = ""
	}
	if _, worker := reexec.WorkerArguments(os.Args); !worker {
		return
	}
	switch name {
	case "crash-prove":
		os.Exit(9)
	case "hang-prove":
		select {}
	case "crash-serve", "hang-serve": // as soon as it says for the second time that it is ready; or for the first time
		plan := map[string]string{"crash-serve": "keep.ready:2", "hang-serve": "keep.ready:1,hang"}[name]
		if os.Getenv(crash.Variable) != plan { // it is read while packages are initialized
			os.Setenv(crash.Variable, plan)
			syscall.Exec(path, os.Args, os.Environ())
		}
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", UpdateScripts: *update, Setup: func(env *testscript.Env) error {
		env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second to exit
		return nil
	}, Cmds: map[string]func(*testscript.TestScript, bool, []string){
		withMCP.program:   putInPath(buildMCP),
		withFleet.program: putInPath(buildFleet),
	}})
}

// putInPath is a command of scripts that puts a program in PATH.
func putInPath(build func() (string, error)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		path, err := build()
		ts.Check(err)
		ts.Setenv("PATH", filepath.Dir(path)+string(os.PathListSeparator)+ts.Getenv("PATH"))
	}
}

// mcpBuilt builds tether-mcp, once.
func mcpBuilt(t *testing.T) string { return built(t, buildMCP) }

// fleetBuilt builds tether-fleet, once.
func fleetBuilt(t *testing.T) string { return built(t, buildFleet) }

func built(t *testing.T, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	buildMCP   = sync.OnceValues(func() (string, error) { return buildTagged(withMCP.tag, withMCP.program) })
	buildSplit = sync.OnceValues(func() (string, error) { return buildTagged("split", "tether") })
	buildFleet = sync.OnceValues(func() (string, error) { return buildTagged(withFleet.tag, withFleet.program) })
)

// buildTagged builds this program with a tag, in a new directory that is removed after all tests, with the race detector if this one
// has it.
func buildTagged(tag, name string) (path string, err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return "", err
	}
	removeLater(dir)
	path = filepath.Join(dir, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	args := []string{"build", "-tags", tag, "-buildvcs=false", "-ldflags=-s -w", "-o", path}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	if text, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return path, nil
}

// removeLater removes a directory after all tests.
func removeLater(dir string) {
	builtMu.Lock()
	defer builtMu.Unlock()
	builtDirs = append(builtDirs, dir)
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range commandNames(newRoot(nil, nil, nil, io.Discard), "") {
		t.Run("tether "+args, func(t *testing.T) {
			var out, stderr bytes.Buffer
			root := newRoot(append(strings.Fields(args), "--help"), nil, nil, &stderr)
			root.SetOut(&out)
			if err := root.Execute(); err != nil || stderr.Len() > 0 {
				t.Fatal(err, stderr.String())
			}
			golden := filepath.Join("testdata", "help", strings.TrimSpace("tether "+args)+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("help differs from %s (rewrite with -update):\n%s", golden, out.String())
			}
			for line := range strings.Lines(out.String()) {
				if len(line) > 121 {
					t.Errorf("too wide for a terminal: %s", line)
				}
			}
		})
	}
}

// Each start of the program makes only the command that it executes. The name of each lazyCommand is that of its command.
func TestOnlyOneCommandIsMade(t *testing.T) {
	t.Parallel()
	all := newRoot(nil, nil, nil, io.Discard).Commands()
	if len(all) < 20 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, cmd := range all {
		want := 1
		if name := cmd.Name(); name == aboutHelp || name == aboutCompletion {
			want = len(all)
		}
		made := newRoot([]string{cmd.Name(), "--help"}, nil, nil, io.Discard).Commands()
		if len(made) != want || want == 1 && made[0].Name() != cmd.Name() {
			t.Errorf("%s: %d commands are made, want %d", cmd.Name(), len(made), want)
		}
	}
	for _, args := range [][]string{{"--version"}, {"rnu"}, {"__complete", "ru"}} {
		if made := newRoot(args, nil, nil, io.Discard).Commands(); len(made) != len(all) {
			t.Errorf("%v: %d commands are made, want all", args, len(made))
		}
	}
}
