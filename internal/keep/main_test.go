//go:build linux && (amd64 || arm64)

package keep

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/reexec"
)

// firstVariable makes the test program the first stage of a server, with these settings.
const firstVariable = "KEEP_TEST_FIRST"

// A firstStage is what the first stage opens and passes on, as `tether serve` does.
type firstStage struct {
	Dir    string // has the socket and the notice
	Mode   string // of the worker
	Beat   time.Duration
	Notice bool
	JSON   bool
	Hasty  bool
	Purges bool   // KillOrphans
	Before bool   // the process has a child before it becomes the first stage
	Ignore string // signals that the first stage ignores, as in trap
	Job    bool   // it is a job of a shell: SIGTSTP can stop it
	Files  uint64 // hard limit of descriptors; 0: unchanged
}

// The descriptors of slot Shared.
const (
	whichListener = 1
	whichLedger   = 2
)

func init() { runtime.LockOSThread() } // for the first stage, which becomes the keeper

func TestMain(m *testing.M) {
	if args, ok := reexec.WorkerArguments(os.Args); ok {
		os.Exit(testWorker(args))
	}
	if settings := os.Getenv(firstVariable); settings != "" {
		fmt.Fprintln(os.Stderr, runFirstStage(settings))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func runFirstStage(settings string) error {
	var s firstStage
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		return err
	}
	os.Unsetenv(firstVariable)
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	if s.Files != 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: s.Files, Max: s.Files}); err != nil {
			return err
		}
	}
	if s.Ignore != "" { // as tether serve does: its commands must not inherit that signals are ignored
		signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGHUP)
	}
	b, err := Begin()
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", filepath.Join(s.Dir, "socket"))
	if err != nil {
		return err
	}
	listener, err := l.(*net.UnixListener).File()
	if err != nil {
		return err
	}
	ledger := os.NewFile(3, "ledger")
	c := Config{
		Args: []string{s.Mode, s.Dir}, Beat: s.Beat, LogJSON: s.JSON, Hasty: s.Hasty, KillOrphans: s.Purges,
		Held: []Held{{Shared, whichListener, int(listener.Fd())}, {Shared, whichLedger, int(ledger.Fd())}},
	}
	if s.Notice {
		if c.Notice, err = os.Create(filepath.Join(s.Dir, "notice")); err != nil {
			return err
		}
	}
	c.Announce = func() error {
		_, err := fmt.Println("listening")
		return err
	}
	c.Abandon = func() {}
	return b.Become(c)
}
