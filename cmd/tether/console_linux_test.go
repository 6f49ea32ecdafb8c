package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// openConsole logs in with a URL that tether has printed, and begins a session.
func openConsole(t *testing.T, page string) *tethertest.Client {
	t.Helper()
	origin, code, ok := strings.Cut(page, "/console/#code=")
	if !ok {
		t.Fatalf("%q is not the URL of a console", page)
	}
	c := tethertest.Browse(t, origin, code).Connect(t)
	c.Handshake("")
	return c
}

// sees reports whether a client sees a process.
func sees(c *tethertest.Client, process string) bool {
	var seen wire.ListResult
	c.Must(wire.MethodProcessList, map[string]any{"sessionId": nil}, &seen)
	for _, p := range seen.Processes {
		if p.ProcessID == process {
			return true
		}
	}
	return false
}

func TestConsole(t *testing.T) {
	t.Parallel()
	url := startTether(t, "serve").line(t)
	owner := tethertest.Connect(t, url)
	owner.Start(tethertest.Shell("p", "exec sleep 1000", nil))
	page := startTether(t, "console", "--no-browser", "--url", url)
	if !sees(openConsole(t, page.line(t)), "p") {
		t.Error("the page does not see the process")
	}
	if err := page.Wait(); err != nil {
		t.Errorf("%v: %s", err, page.stderr)
	}
}

// A server on a socket, and one that is reached by a command, are reached through a port that lives as long as tether console.
func TestConsoleThroughAPort(t *testing.T) {
	t.Parallel()
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	startTether(t, "serve", "--listen", socket).line(t)
	owner := tethertest.Connect(t, socket)
	owner.Start(tethertest.Shell("p", "exec sleep 1000", nil))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{socket, "exec:" + self + " bridge --no-start --socket " + strings.TrimPrefix(socket, "unix://")} {
		page := startTether(t, "console", "--no-browser", "--url", url)
		link := page.line(t)
		origin, _, _ := strings.Cut(link, "/console/")
		c := openConsole(t, link)
		if !sees(c, "p") {
			t.Errorf("%s: the page does not see the process", url)
		}
		if _, err := tethertest.DialWS(t.Context(), "ws"+strings.TrimPrefix(origin, "http"), nil); err == nil {
			t.Errorf("%s: another program of this machine gets in by the port, without a code", url)
		}
		page.Process.Signal(syscall.SIGTERM)
		page.Wait()
		if code := page.ProcessState.ExitCode(); code != exitOK {
			t.Errorf("%s: exit code %d: %s", url, code, page.stderr)
		}
		c.Ended()
	}
}

func TestConsoleFlags(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for _, row := range []struct {
		want string
		args []string
	}{
		{"`--console-read-only` and `--console-origin` exclude `--no-console`", []string{"--no-console", "--console-read-only"}},
		{"`--console-origin` \"tether.example\" is not the origin of a page", []string{"--console-origin", "tether.example"}},
	} {
		if got := b.tether(nil, append([]string{"serve"}, row.args...)...); got.code != exitError || !strings.Contains(got.stderr, row.want) {
			t.Errorf("%v: %+v", row.args, got)
		}
	}
	closed := startTether(t, "serve", "--no-console").line(t)
	if got := b.tether(nil, "console", "--no-browser", "--url", closed); got.code != exitError || !strings.Contains(got.stderr, "the server has no console") {
		t.Errorf("--no-console: %+v", got)
	}
	named := startTether(t, "serve", "--console-read-only", "--console-origin", "https://tether.example").line(t)
	if got := b.tether(nil, "console", "--no-browser", "--url", named); got.code != exitOK || !strings.HasPrefix(got.stdout, "https://tether.example/console/#code=") {
		t.Errorf("--console-origin: %+v", got)
	}
	watched := startTether(t, "serve", "--console-read-only").line(t)
	got := b.tether(nil, "console", "--no-browser", "--url", watched)
	c := openConsole(t, strings.TrimSpace(got.stdout))
	if m := c.Call("process/start", tethertest.Shell("p", "true", nil)); m.Error == nil || !strings.Contains(string(m.Raw), wire.ErrorReadOnly) {
		t.Errorf("a page that may only watch starts a command: %s", m.Raw)
	}
}

// On a terminal, the server prints the URL with a code. Standard output has the URL for clients alone, as ever.
func TestServePrintsConsole(t *testing.T) {
	t.Parallel()
	for _, keeper := range []string{"--keeper", "--no-keeper"} {
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, "serve", keeper)
		cmd.Stderr = slave
		p := startProgram(t, nil, cmd)
		slave.Close()
		url := p.line(t)
		lines := bufio.NewReader(master)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: no URL of the console: %v", keeper, err)
			}
			if _, page, ok := strings.Cut(strings.TrimSpace(line), "console (within a minute): "); ok {
				if origin := "http" + strings.TrimPrefix(url, "ws"); !strings.HasPrefix(page, origin+"/console/#code=") {
					t.Errorf("%s: %s", keeper, page)
				}
				openConsole(t, page)
				break
			}
		}
		p.Process.Signal(syscall.SIGTERM) // the keeper ends behind its worker, which removes the state directory
		p.Wait()
		master.Close()
	}
}

// The released tether gets the page from tether-mcp beside it.
func TestConsolePageOfTheReleasedProgram(t *testing.T) {
	t.Parallel()
	split, err := buildTagged("split", "tether")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		cmd := exec.CommandContext(t.Context(), split, "serve", "--no-keeper")
		p := startProgram(t, []string{"PATH=" + path}, cmd)
		answer, err := http.Get("http" + strings.TrimPrefix(p.line(t), "ws") + "/console/")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	if status, body := get(""); status != http.StatusServiceUnavailable || !strings.Contains(body, "tether-mcp") {
		t.Errorf("without tether-mcp: %d %s", status, body)
	}
	if status, body := get(filepath.Dir(mcpBuilt(t))); status != http.StatusOK || !bytes.HasPrefix([]byte(strings.ToLower(body)), []byte("<!doctype html>")) {
		t.Errorf("with tether-mcp: %d %s", status, body)
	}
}
