//go:build interop

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/tethertest"
)

// startTimeout bounds the time to the URL line. The reference is a 300 MB binary
// that may have to come from a cold disk.
const startTimeout = 30 * time.Second

// A product is one of the two programs that are compared.
type product string

const (
	ref    product = "ref"
	tether product = "tether"
)

var products = []product{ref, tether}

// suite has what all tests of a run share: binaries, directories, servers.
var suite struct {
	root   string // module root
	dir    string // scratch, see scratchBase
	work   string // cwd of servers and commands
	bin    map[product]string
	why    map[product]string // reason why a product cannot be tested
	broken bool               // tether does not build
	mu     sync.Mutex
	serve  map[string]*server
	own    map[string]string // directories of tests, see ownDir
}

func TestMain(m *testing.M) {
	flag.Parse()
	tethertest.StopIgnoringSignals()
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
	go runStarter() // ends with the channel
	code := m.Run()
	for _, s := range suite.serve {
		s.stop()
	}
	close(starter)
	os.RemoveAll(suite.dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func prepare() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	suite.root, suite.serve, suite.own = root, map[string]*server{}, map[string]string{}
	suite.bin, suite.why = map[product]string{}, map[product]string{}
	base, err := scratchBase(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	if suite.dir, err = os.MkdirTemp(base, "interop-"); err != nil {
		return err
	}
	suite.work = filepath.Join(suite.dir, "work")
	for _, d := range []string{suite.work, filepath.Join(suite.dir, "home"), filepath.Join(suite.dir, "codex")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{"token": "  " + capability + "\n", "secret": jwtSecret + "\n", "empty": " \n", "short": "short"} {
		if err := os.WriteFile(filepath.Join(suite.work, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	locateReference()
	buildTether()
	return nil
}

// scratchBase returns the directory for scratch. It must not lie below /tmp or $TMPDIR: the
// reference refuses a CODEX_HOME there, and both are writable in most sandboxes. So it is
// .state in the module root, or in the user's cache if the module lies in such a place.
func scratchBase(root string) (string, error) {
	bases := []string{filepath.Join(root, ".state")}
	if cache, err := os.UserCacheDir(); err == nil {
		bases = append(bases, filepath.Join(cache, "tether-interop"))
	}
	for _, base := range bases {
		temporary := false
		for _, dir := range []string{"/tmp", os.TempDir()} {
			relative, err := filepath.Rel(dir, base)
			temporary = temporary || err == nil && filepath.IsLocal(relative)
		}
		if !temporary {
			return base, nil
		}
	}
	return "", fmt.Errorf("no place for scratch: %s lie below /tmp or $TMPDIR; set XDG_CACHE_HOME to a directory elsewhere", strings.Join(bases, " and "))
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no go.mod above the working directory")
}

func locateReference() {
	pattern := filepath.Join(suite.root, ".reference/node_modules/@openai/codex-linux-*/vendor/*/bin/codex")
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		suite.why[ref] = "the reference binary is not installed: nothing matches " + pattern
		return
	}
	suite.bin[ref] = found[0]
	if !*live && !*record {
		return
	}
	if version, err := exec.Command(found[0], "--version").Output(); err != nil || !strings.HasSuffix(strings.TrimSpace(string(version)), " "+referenceVersion) {
		suite.why[ref] = fmt.Sprintf("%s reports version %q (%v), and the recordings are of %s", found[0], version, err, referenceVersion)
		delete(suite.bin, ref)
	}
}

// buildTether fills in tether's binary. Sources that do not build fail the tests
// that need it; no sources at all are a reason to skip.
func buildTether() {
	if *record {
		suite.why[tether] = "only the reference is recorded"
		return
	}
	if bin := os.Getenv("TETHER_BIN"); bin != "" {
		suite.bin[tether] = bin
		return
	}
	if found, _ := filepath.Glob(filepath.Join(suite.root, "cmd/tether/*.go")); len(found) == 0 {
		suite.why[tether] = "cmd/tether has no sources yet"
		return
	}
	bin := filepath.Join(suite.root, "bin", "tether")
	for program, tags := range map[string]string{bin: "", bin + "-mcp": "mcp", bin + "-fleet": "fleet"} { // for `tether mcp` and fleets
		cmd := exec.Command("go", "build", "-tags", tags, "-ldflags=-s -w", "-o", program, "./cmd/tether")
		cmd.Dir = suite.root
		if out, err := cmd.CombinedOutput(); err != nil {
			suite.why[tether], suite.broken = fmt.Sprintf("it does not build: %v\n%s", err, out), true
			return
		}
	}
	suite.bin[tether] = bin
}

// program returns the product's program, or skips; in CI a missing program fails.
func program(t testing.TB, who product) string {
	t.Helper()
	bin, ok := suite.bin[who]
	if !ok {
		switch {
		case who == tether && *record:
		case who == ref && *record, who == tether && suite.broken, os.Getenv("CI") == "true":
			t.Fatalf("%s: %s", who, suite.why[who])
		}
		t.Skipf("%s: %s", who, suite.why[who])
	}
	return bin
}

// ownDir returns the path of a directory that belongs to a test and is removed at its end.
// It is the same for each call with this kind; normalise writes it as $BENCH/KIND.
func ownDir(t testing.TB, kind string) string {
	t.Helper()
	suite.mu.Lock()
	defer suite.mu.Unlock()
	key := kind + " " + t.Name()
	if _, ok := suite.own[key]; !ok {
		dir := filepath.Join(suite.dir, fmt.Sprintf("%s%04d", kind, len(suite.own)))
		suite.own[key] = dir
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
	}
	return suite.own[key]
}

// serverEnv is the whole environment of every server, the same for both products:
// it is what the environment policy works on.
func serverEnv() []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + filepath.Join(suite.dir, "home"),
		"CODEX_HOME=" + filepath.Join(suite.dir, "codex"),
		"XDG_STATE_HOME=" + filepath.Join(suite.dir, "home", "state"),
		"LANG=C.UTF-8", "Lang=mixed", "LC_ALL=C.UTF-8", "USER=tester", "LOGNAME=tester", "SHELL=/bin/sh",
		"TMPDIR=/tmp", "PLAIN=plain", "plain=lower", "EMPTY=", "SPACE=a b  c", "EQUALS=a=b", "LINES=one\ntwo",
		"monkey=banana", "API_KEY=k", "MY_SECRET=s", "GITHUB_TOKEN=t", "my_token_x=t2",
		"STAR_A=1", "STAR_B=2", "Q1=1", "Q22=2", "BRACKET[1]=x",
		"NODE_REPL_AUTH_TOKEN=forbidden", "openai_identity_token_file=forbidden",
		"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=forbidden", "OPENAI_FEDERATION_RULE_ID=forbidden",
		"OPENAI_WORKLOAD_IDENTITY_CONTEXT=forbidden", "codex_exec_server_exit_on_stdin_close=kept",
	}
}

// command prepares PRODUCT exec-server ARGS in the shared environment.
func command(t testing.TB, who product, args ...string) *exec.Cmd {
	t.Helper()
	return productCommand(t, who, append([]string{"exec-server"}, args...)...)
}

// productCommand prepares PRODUCT ARGS in the shared environment.
func productCommand(t testing.TB, who product, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t, who), args...)
	cmd.Dir, cmd.Env = suite.work, serverEnv()
	if extra := os.Getenv("INTEROP_EXTRA"); extra != "" {
		cmd.Env = append(cmd.Env, extra)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// A server is a running exec-server with a WebSocket listener.
type server struct {
	who    product
	url    string
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr bytes.Buffer // read only after wait
	waited chan struct{}
	status error

	gateways []string  // URLs; none: clients connect to the server itself
	fleet    []*server // hub and gateways, which end with the server
}

// startServer starts one and waits for its URL line.
func startServer(t testing.TB, who product, args ...string) *server {
	t.Helper()
	if who == tether && *gatewaysFlag > 0 {
		return startBehindGateways(t, *gatewaysFlag, args...)
	}
	return startCommand(t, who, command(t, who, append([]string{"--listen", "ws://127.0.0.1:0"}, args...)...))
}

// startCommand starts a prepared server and waits for its URL line.
func startCommand(t testing.TB, who product, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{who: who, cmd: cmd, waited: make(chan struct{})}
	s.cmd.Stderr = &s.stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout = w
	s.cmd.WaitDelay = 8 * time.Second // if a child still holds its stderr
	err = startForAllTests(s.cmd)
	w.Close()
	if err != nil {
		r.Close()
		t.Fatalf("start %s: %v", who, err)
	}
	go func() { // ends with the server, which stop kills; stop waits for it
		s.status = s.cmd.Wait()
		r.Close()
		close(s.waited)
	}()
	r.SetReadDeadline(time.Now().Add(startTimeout))
	s.stdout = bufio.NewReader(r)
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		s.stop()
		t.Fatalf("%s printed no URL line (%q): %v\n%s", who, line, err, &s.stderr)
	}
	s.url = strings.TrimSuffix(line, "\n")
	return s
}

// starter starts commands, on a thread that ends with the tests.
var starter = make(chan func())

func runStarter() {
	runtime.LockOSThread() // never unlocked
	for start := range starter {
		start()
	}
}

// startForAllTests starts a command that outlives a test. Pdeathsig kills a command when the thread that started it ends, so the
// command is started by a thread that ends with the tests.
func startForAllTests(cmd *exec.Cmd) error {
	started := make(chan error)
	starter <- func() { started <- cmd.Start() }
	return <-started
}

// stop kills the server and waits for its end.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.waited:
	case <-time.After(3 * time.Second):
		s.cmd.Process.Kill()
		<-s.waited
	}
	for _, part := range s.fleet {
		part.stop()
	}
}

// sharedServer returns the run's server with these flags, started on first use.
func sharedServer(t testing.TB, who product, args ...string) *server {
	t.Helper()
	suite.mu.Lock()
	defer suite.mu.Unlock()
	key := string(who) + " " + strings.Join(args, " ")
	if s := suite.serve[key]; s != nil {
		select {
		case <-s.waited:
			t.Errorf("%s has ended unexpectedly: %v\n%s", key, s.status, &s.stderr)
		default:
			return s
		}
	}
	s := startServer(t, who, args...)
	suite.serve[key] = s
	return s
}

// outcome is how a short-lived run of a product ended.
type outcome struct {
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// runToEnd runs the product with stdin and returns how it ended; a run that does
// not end within the time is killed and reported with exit -1.
func runToEnd(t testing.TB, who product, stdin io.Reader, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	cmd := command(t, who, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	cmd.Wait()
	stop()
	text := aliasWarning.ReplaceAllString(errs.String(), "")
	if rest, ok := strings.CutPrefix(text, "tether: "); ok && who == tether {
		text = "Error: " + rest // tether begins all its lines with its name
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), text}
}

// aliasWarning is the warning of the reference if the repository is below /tmp.
var aliasWarning = regexp.MustCompile(`(?m)^WARNING: proceeding, even though we could not create PATH aliases: .*\n`)
