package local_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/unifiedexec/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tethertest.AtHome(m)) }

// A model runs a command, and talks to a program that waits for input.
func Example() {
	ctx := context.Background()
	state, err := os.MkdirTemp("", "tether-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	e, err := local.Start(ctx, local.Options{StateDir: state})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	m, err := unifiedexec.New(unifiedexec.Config{
		Environments: []unifiedexec.Environment{{ID: "local", Executor: e, Local: true, Cwd: "/"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	args, err := unifiedexec.ParseExecArgs([]byte(`{"cmd": "printf 'name? '; read name; echo hello $name", "shell": "/bin/sh", "tty": true, "yield_time_ms": 3000}`))
	if err != nil {
		log.Fatal(err)
	}
	r, err := m.ExecCommand(ctx, args)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, running: %t\n", r.Output, r.SessionID != 0)

	yield := int64(30_000) // or until the command ends
	r, err = m.WriteStdin(ctx, unifiedexec.StdinArgs{SessionID: r.SessionID, Chars: "tether\n", YieldTimeMs: &yield})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q, exit code %d\n", r.Output, *r.ExitCode)
	// Output:
	// name? , running: true
	// "tether\r\nhello tether\r\n", exit code 0
}

// An embedded server sandboxes commands like any other server.
func TestSandbox(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	dir, err := os.MkdirTemp("/var/tmp", "tether-local-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	e, err := local.Start(t.Context(), local.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, err := unifiedexec.New(unifiedexec.Config{Environments: []unifiedexec.Environment{{
		ID: "local", Executor: e, Local: true, Cwd: dir, Sandbox: unifiedexec.WorkspaceWrite(),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	outside := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+"-outside")
	lines := tethertest.Interleaved(1000)
	yield := int64(30_000) // or until it ends
	if r, err := m.ExecCommand(t.Context(), unifiedexec.ExecArgs{Cmd: lines.Script, Shell: "/bin/sh", YieldTimeMs: &yield}); err != nil || r.Output != lines.Both {
		t.Errorf("lines on both streams: %v, %v", r, err)
	}
	for cmd, want := range map[string]string{"echo x > inside && cat inside": "x\n", "echo x > " + outside: "Read-only file system"} {
		r, err := m.ExecCommand(t.Context(), unifiedexec.ExecArgs{Cmd: cmd})
		if err != nil || !strings.Contains(r.Output, want) {
			t.Errorf("%s: %v, %v", cmd, r, err)
		}
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("something was written outside of the workspace")
	}
}
