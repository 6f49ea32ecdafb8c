package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/executable"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// An sshHost is an account on this machine whose home is empty, behind a real sshd. The test accepts its connections on a port of loopback and gives
// each of them to an sshd of its own (sshd -i), so that the test can cut them.
type sshHost struct {
	*testEnv
	home, bin, url string
	sshd, config   string
	bridge         bridgeHome

	mu    sync.Mutex
	conns map[net.Conn]bool
	limit int // the next connections are cut after so many bytes of the client; 0: never
	count int
}

// newSSHHost has the released programs for its commands: tether, and tether-mcp beside it.
func newSSHHost(t *testing.T) *sshHost {
	t.Helper()
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		need.CannotRun(t, "sshd is not installed (scripts/need-sshd)")
	}
	if os.Geteuid() == 0 {
		os.MkdirAll("/run/sshd", 0o755) // the service makes it when it starts
	}
	h := &sshHost{testEnv: newTestEnv(t), sshd: sshd, home: t.TempDir(), conns: map[net.Conn]bool{}}
	h.installClient()
	h.configure()
	state, machine := filepath.Join(h.home, ".local/state"), "local"
	if name, err := os.Hostname(); err == nil {
		machine = name
	}
	h.bridge = bridgeHome{t: t, socket: filepath.Join(state, "tether/home", machine, "server.sock"), state: state}
	h.bridge.endServerLater()
	h.listen()
	return h
}

// installClient puts the two programs into a directory.
func (h *sshHost) installClient() {
	h.bin = filepath.Join(h.work, "bin")
	h.program("ssh", "exec /usr/bin/ssh -F "+h.work+"/ssh_config \"$@\"")
	for name, from := range map[string]string{"tether": built(h.t, buildSplit), "tether-mcp": mcpBuilt(h.t)} {
		if err := executable.Copy(from, filepath.Join(h.bin, name)); err != nil {
			h.t.Fatal(err)
		}
	}
	h.self = filepath.Join(h.bin, "tether")
}

// configure writes the keys and the settings of both ends.
func (h *sshHost) configure() {
	h.t.Helper()
	for _, name := range []string{"host", "user"} {
		if text, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(h.work, name)).CombinedOutput(); err != nil {
			h.t.Fatalf("%v: %s", err, text)
		}
	}
	h.config = filepath.Join(h.work, "sshd_config")
	for name, text := range map[string]string{
		h.config: "HostKey D/host\nAuthorizedKeysFile D/user.pub\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n" +
			"SetEnv HOME=" + h.home + " XDG_RUNTIME_DIR= XDG_CACHE_HOME= XDG_STATE_HOME= PATH=/usr/bin:/bin\n",
		filepath.Join(h.work, "ssh_config"): "IdentityFile D/user\nUserKnownHostsFile D/known\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n",
	} {
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "D/", h.work+"/")), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
}

// listen serves until the end of the test, and waits for the end of each sshd.
func (h *sshHost) listen() {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "ssh://" + l.Addr().String()
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() { h.serve(conn) })
		}
	})
	h.t.Cleanup(func() {
		l.Close()
		h.cut()
		tasks.Wait()
	})
}

// serve passes the bytes of a connection to an sshd.
func (h *sshHost) serve(conn net.Conn) {
	h.mu.Lock()
	h.conns[conn] = true
	h.count++
	limit := h.limit
	h.mu.Unlock()
	cmd := exec.Command(h.sshd, "-i", "-f", h.config)
	cmd.Stdout = conn
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Error(err)
		conn.Close()
		return
	}
	if limit > 0 {
		io.CopyN(in, conn, int64(limit))
		conn.Close()
	} else {
		io.Copy(in, conn)
	}
	in.Close()
	cmd.Wait()
	conn.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, conn)
}

// cut ends all connections, and returns how many there were.
func (h *sshHost) cut() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn := range h.conns {
		conn.Close()
	}
	return len(h.conns)
}

// cutAfter lets the next connections end after so many bytes of the client; 0: they are not cut.
func (h *sshHost) cutAfter(limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = limit
}

func (h *sshHost) connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// copied is where the program of this version belongs.
func (h *sshHost) copied() string { return filepath.Join(h.home, ".cache/tether/dev/tether") }

// command is that of testEnv without the tether-mcp in another directory.
func (h *sshHost) command(args ...string) *exec.Cmd {
	cmd := h.testEnv.command(args...)
	cmd.Env = h.env
	return cmd
}

// wants executes a command with the address, and compares its standard output.
func (h *sshHost) wants(stdout string, args ...string) {
	h.t.Helper()
	args = append([]string{args[0], "--url", h.url}, args[1:]...)
	if got := h.tether(nil, args...); got.code != 0 || !strings.Contains(got.stdout, stdout) || got.stderr != "" {
		h.t.Errorf("%q: %+v, want %q", args, got, stdout)
	}
}

// Every command works with a machine that has only sshd. The first two come at the same time.
func TestSSHBringsItsProgram(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	if got := h.tether(nil, "run", "--no-deploy", "--url", h.url, "true"); got.code != exitRefused || !strings.Contains(got.stderr, "there is no tether on that machine") {
		t.Errorf("with --no-deploy: %+v", got)
	}
	if left, _ := os.ReadDir(h.home); len(left) > 0 {
		t.Errorf("with --no-deploy: %v", left)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			got := h.tether(strings.NewReader("input"), "run", "--url", h.url, "--", "sh", "-c", "cat; exit 3")
			if said := "to " + h.url + ", as " + h.copied() + "\n"; got.code != 3 || got.stdout != "input" || !strings.HasPrefix(got.stderr, "tether: copying tether dev for ") || !strings.Contains(got.stderr, said) {
				t.Errorf("%+v", got)
			}
		})
	}
	both.Wait()
	h.processCommands()
	h.fileCommands()
	h.agentCommands()
	h.console()
	h.shell()
}

func (h *sshHost) shell() {
	h.t.Helper()
	cmd := h.command("shell", "--url", h.url)
	cmd.Path, cmd.Args = "/usr/bin/script", []string{"script", "-qec", strings.Join(cmd.Args, " "), "/dev/null"}
	cmd.Stdin = strings.NewReader("echo $((6*7)) $HOME\nexit 5\n")
	out, _ := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 5 || !bytes.Contains(out, []byte("42 "+h.home)) {
		h.t.Errorf("shell: %d: %s", code, out)
	}
}

// processCommands are those about processes and sessions.
func (h *sshHost) processCommands() {
	h.t.Helper()
	h.wants("web", "run", "--detach", "--name", "web", "--stdin", "--", "sh", "-c", "echo ready; read x; echo got $x; exit 0")
	h.wants("web", "ps")
	h.wants("ready\n", "logs", "web")
	h.wants("read", "why", "web")
	if got := h.tether(strings.NewReader("word\n"), "attach", "--url", h.url, "web"); got.code != 0 || !strings.Contains(got.stdout, "got word\n") {
		h.t.Errorf("attach: %+v", got)
	}
	h.wants("", "wait", "web")
	cast := filepath.Join(h.work, "web.cast")
	h.wants("", "record", "web", "-q", "-o", cast)
	if text, _ := os.ReadFile(cast); !bytes.Contains(text, []byte("got word")) {
		h.t.Errorf("record: %s", text)
	}
	h.wants("", "rm", "web")
	h.wants("long", "run", "--detach", "--name", "long", "--", "sleep", "1000")
	h.wants("", "kill", "long")
	h.wants("", "sessions")
	h.wants("serves", "upgrade", "--to", h.copied())
	h.wants("version dev serves already", "upgrade-host")
}

func (h *sshHost) fileCommands() {
	h.t.Helper()
	file := filepath.Join(h.work, "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.wants("", "cp", "-q", file, ":"+h.home+"/copy")
	h.wants("content", "fs", "cat", h.home+"/copy")
	h.wants("copy", "fs", "ls", h.home)
	h.wants("", "cp", "-q", ":"+h.home+"/copy", file+"2")
	if text, err := os.ReadFile(file + "2"); string(text) != "content" {
		h.t.Errorf("%q, %v", text, err)
	}
}

func (h *sshHost) agentCommands() {
	h.t.Helper()
	user := newMCPUser(h.t, &mcp.CommandTransport{Command: h.command("mcp", "--url", h.url, "--cwd", h.home)})
	user.want("exec_command", map[string]any{"cmd": "pwd", "login": false}, h.home, "Process exited with code 0")
	user.Close()
	if got := h.tether(strings.NewReader("{\"line\":1}\n"), "mcp-run", "--url", h.url, "--", "cat"); got.stdout != "{\"line\":1}\n" {
		h.t.Errorf("mcp-run: %+v", got)
	}
}

func (h *sshHost) console() {
	h.t.Helper()
	cmd := h.command("console", "--url", h.url, "--no-browser")
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGINT)
	page, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		h.t.Fatal(err)
	}
	page, _, _ = strings.Cut(strings.TrimSpace(page), "#")
	answer, err := http.Get(page)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != 200 || !bytes.Contains(text, []byte("<html")) {
		h.t.Errorf("%s: %s, %v: %s", page, answer.Status, err, text)
	}
}

// A connection that is cut again and again costs nothing: not while the program is copied, and not while a command runs.
func TestSSHThroughCuts(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	os.WriteFile(filepath.Join(h.home, ".bashrc"), []byte("echo Welcome to build; printf 'no line end'\n"), 0o600)
	h.cutAfter(6 << 20)
	cmd := h.command("run", "--url", h.url, "--", "sh", "-c", "while read x; do echo got $x; done")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, out := piped(t, cmd)
	lines := bufio.NewReader(out)
	for i := range 4 {
		fmt.Fprintf(in, "%d\n", i)
		if line, err := lines.ReadString('\n'); line != fmt.Sprintf("got %d\n", i) {
			t.Fatalf("%q, %v; standard error: %s", line, err, stderr.String())
		}
		h.cutAfter(0)
		before := h.connections()
		if h.cut() == 0 {
			t.Error("there was no connection")
		}
		tethertest.Eventually(t, func() error {
			if h.connections() == before {
				return fmt.Errorf("no other connection than %d", before)
			}
			return nil
		})
	}
	in.Close()
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "was lost while tether was copied; connecting again") {
		t.Errorf("%v; standard error: %s", err, stderr.String())
	}
}

// A tether in PATH is used, whatever its version, and nothing is copied. upgrade-host replaces its server, whose commands go on.
func TestSSHUpgradeHost(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	old, path := filepath.Join(h.tmp, "version-0.9"), filepath.Join(h.home, "bin")
	if err := executable.Copy(self, old); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(path, 0o755)
	if err := executable.Write(filepath.Join(path, "tether"), []byte("#!/bin/sh\nexec env "+beTether+"=1 "+old+" \"$@\"\n")); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.config, bytes.Replace(config, []byte("PATH="), []byte("PATH="+path+":"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	h.wants("keep", "run", "--detach", "--name", "keep", "--stdin", "--", "sh", "-c", "echo ready; read x; echo got $x")
	if _, err := os.Stat(h.copied()); err == nil {
		t.Error("tether was copied beside the one in PATH")
	}
	got := h.tether(nil, "upgrade-host", "--url", h.url)
	if got.code != 0 || got.stdout != "version dev serves in place of version 0.9\n" || !strings.HasPrefix(got.stderr, "tether: copying tether dev for ") {
		t.Errorf("%+v", got)
	}
	if got := h.tether(strings.NewReader("word\n"), "attach", "--url", h.url, "keep"); got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "got word\n") {
		t.Errorf("attach: %+v", got)
	}
	h.wants("ready\ngot word\n", "logs", "keep")
	if got := h.tether(nil, "upgrade-host", "--url", "ws://127.0.0.1:1"); got.code != exitUsage || !strings.Contains(got.stderr, "name a machine with --url ssh://HOST") {
		t.Errorf("%+v", got)
	}
}

// The first contact over loopback takes 1.5 s at most. On a machine that is busy with other things it takes no more than eight logins.
func TestSSHFirstContactTime(t *testing.T) {
	tethertest.SoakOnly(t)
	h := newSSHHost(t)
	a, err := parseAddress(h.url)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	login := exec.Command(filepath.Join(h.bin, "ssh"), append(a.command[1:len(a.command)-1:len(a.command)-1], "true")...)
	if text, err := login.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	single := time.Since(begin)
	begin = time.Now()
	got := h.tether(nil, "run", "--url", h.url, "true")
	took := time.Since(begin)
	t.Logf("the first contact took %v, a login %v", took, single)
	if got.code != 0 || took > max(1500*time.Millisecond, 8*single) {
		t.Errorf("%v, with logins of %v: %+v", took, single, got)
	}
}

// Without the program that copies, and with a host that has a program of its own.
func TestSSHWithoutCompanion(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	os.Remove(filepath.Join(h.bin, "tether-mcp"))
	if got := h.tether(nil, "run", "--url", h.url, "true"); got.code != exitRefused || !strings.Contains(got.stderr, h.url+" has no tether, and the program that copies it, tether-mcp, is neither in the directory of tether nor in PATH") {
		t.Errorf("%+v", got)
	}
	if left, _ := os.ReadDir(h.home); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
