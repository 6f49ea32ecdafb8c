package main

import (
	"bufio"
	"bytes"
	"crypto/md5"
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

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// postgres starts PostgreSQL (Debian: postgresql), which accepts the user postgres from loopback, and returns its port.
func postgres(t *testing.T) (port string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		need.CannotRun(t, "PostgreSQL is not installed")
	}
	bin := found[len(found)-1]
	dir, err := os.MkdirTemp("", "tether-postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
		if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
			const nobody = 65534
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	cmd := command("postgres", "-D", data, "-k", "", "-h", "127.0.0.1", "-p", port, "-F")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	for ready := false; !ready; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		ready = strings.Contains(line, "ready to accept connections")
	}
	var reading sync.WaitGroup
	reading.Go(func() { io.Copy(io.Discard, lines) }) // ends with PostgreSQL
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		reading.Wait()
		cmd.Wait()
	})
	return port
}

// A real database and a real web server through `tether forward`, while the connection is cut every 2 s.
func TestForwardDatabase(t *testing.T) {
	tethertest.SoakOnly(t)
	psql, err := exec.LookPath("psql")
	if err != nil {
		need.CannotRun(t, "there is no psql")
	}
	b, site := newTestEnv(t), t.TempDir()
	page := tethertest.PatternBytes(t, 16<<20)
	if err := os.WriteFile(filepath.Join(site, "page"), page, 0o644); err != nil {
		t.Fatal(err)
	}
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	_, database, _ := b.forwarded("--url", line.URL(), "0:"+postgres(t))
	_, web, _ := b.forwarded("--url", line.URL(), "0:"+webServer(t, site))

	const cuts = 10
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(over)
		for range cuts {
			time.Sleep(2 * time.Second)
			line.Sever()
		}
	})
	running.Go(func() {
		for more := true; more; more = !isClosed(over) {
			resp, err := http.Get("http://" + web + "/page")
			if err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Equal(got, page) {
				t.Errorf("the web server: %d bytes, %v", len(got), err)
			}
		}
	})
	var rows strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&rows, "%d\trow %d\n", i, i*i)
	}
	sum := fmt.Sprintf("%x", md5.Sum([]byte(rows.String())))
	host, port, _ := net.SplitHostPort(database)
	rounds := 0
	for more := true; more; more = !isClosed(over) {
		script := fmt.Sprintf("CREATE TABLE t%d (i int, s text);\nCOPY t%[1]d FROM STDIN;\n%s\\.\nCOPY t%[1]d TO STDOUT;\n", rounds, rows.String())
		cmd := exec.Command(psql, "-h", host, "-p", port, "-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-f", "-", "postgres")
		cmd.Stdin, cmd.Env = strings.NewReader(script), []string{"PGSSLMODE=disable", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if got := fmt.Sprintf("%x", md5.Sum(out)); err != nil || got != sum {
			t.Errorf("round %d: %d bytes of %d came back, %v", rounds, len(out), rows.Len(), err)
			break
		}
		rounds++
	}
	running.Wait()
	t.Logf("%d rounds of %d bytes each way, %d cuts", rounds, rows.Len(), cuts)
}
