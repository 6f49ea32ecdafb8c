//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the time to the URL line. The reference is a 300 MB
	// binary that may have to come from a cold disk.
	startTimeout = 30 * time.Second

	// stopTimeout is how long a server may take to end before it is killed.
	stopTimeout = 3 * time.Second

	// referenceDir is where scripts/with-reference installs the reference.
	referenceDir = ".reference"
)

// A candidate is a server program that can be measured.
type candidate struct {
	name column
	argv []string
	env  []string
}

// candidates are the reference, if it is installed, and tether.
func candidates(root, dir string) []candidate {
	env := append(os.Environ(), "CODEX_HOME="+filepath.Join(dir, "codex"), "X=Y")
	os.Mkdir(filepath.Join(dir, "codex"), 0o700)
	var found []candidate
	if bin, _ := filepath.Glob(filepath.Join(root, referenceDir, "node_modules/@openai/codex-*/vendor/*/bin/codex")); len(bin) > 0 {
		found = append(found, candidate{referenceColumn, []string{bin[0], "exec-server", "--listen", "ws://127.0.0.1:0"}, env})
	}
	return append(found, candidate{tetherColumn, []string{filepath.Join(root, "bin/tether"), "serve", "--listen", "ws://127.0.0.1:0"}, env})
}

// A server is a candidate that runs.
type server struct {
	url    string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it was waited for
	stderr bytes.Buffer  // only read when ended
}

// start runs a candidate and returns when it has printed its URL.
func (c candidate) start() (*server, error) {
	s := &server{cmd: exec.Command(c.argv[0], c.argv[1:]...), ended: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = c.env, w, &s.stderr
	err = s.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	go func() { // ends with the server; stop waits for it
		s.cmd.Wait()
		r.Close()
		close(s.ended)
	}()
	r.SetReadDeadline(time.Now().Add(startTimeout))
	line, err := bufio.NewReader(r).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "ws://") {
		err = errors.New("not a URL")
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("first line %q of %s: %w\n%s", line, c.argv[0], err, &s.stderr)
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

// stop ends the server and waits for its end.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		s.cmd.Process.Kill()
		<-s.ended
	}
}

// clockTick is the unit of CPU times in /proc, the same on every port of Linux.
const clockTick = 10 * time.Millisecond

// cpu returns the CPU time of the server and that of its children that ended.
func (s *server) cpu() (own, children time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	return parseCPU(string(text))
}

// allCPU is both together.
func (s *server) allCPU() (time.Duration, error) {
	own, children, err := s.cpu()
	return own + children, err
}

// parseCPU reads a line of /proc/PID/stat. The fields are counted behind the
// name of the program, which may contain anything.
func parseCPU(stat string) (own, children time.Duration, err error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const utime, stime, cutime, cstime = 11, 12, 13, 14
	if len(fields) <= cstime {
		return 0, 0, fmt.Errorf("unexpected CPU times in %q", stat)
	}
	var ticks [4]int64
	for i, field := range []int{utime, stime, cutime, cstime} {
		if ticks[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("CPU times: %w", err)
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * clockTick, time.Duration(ticks[2]+ticks[3]) * clockTick, nil
}
