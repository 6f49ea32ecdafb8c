//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the time to the URL line. The reference is a 300 MB binary, which may have
	// to be read from disk.
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

// candidates are the server to compare with and tether. Without base, that server is the reference, if it is installed.
func candidates(dir string, base, flags []string) (found []candidate) {
	os.Mkdir(filepath.Join(dir, "codex"), 0o700)
	env := append(os.Environ(), "CODEX_HOME="+filepath.Join(dir, "codex"), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	if bin, _ := filepath.Glob(referenceDir + "/node_modules/@openai/codex-*/vendor/*/bin/codex"); len(base) == 0 && len(bin) > 0 {
		base = []string{bin[0], "exec-server"}
	}
	listen := []string{"--listen", "ws://127.0.0.1:0"}
	if len(base) > 0 {
		found = append(found, candidate{referenceColumn, slices.Concat(base, listen), env})
	}
	return append(found, candidate{tetherColumn, slices.Concat([]string{"bin/tether", "serve"}, listen, flags), env})
}

// A server is a candidate that runs.
type server struct {
	url    string
	began  time.Time     // of the start
	ready  time.Duration // from there until it had printed the URL
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended and was collected
	stderr bytes.Buffer  // read only after ended is closed
}

// start runs a candidate and returns when it has printed its URL.
func (c candidate) start() (*server, error) {
	s := &server{cmd: exec.Command(c.argv[0], c.argv[1:]...), ended: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = c.env, w, &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the scheduler groups processes by session: no server shares that of the client
	s.began = time.Now()
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
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%s printed no URL: %w\n%s", c.argv[0], err, &s.stderr)
	}
	s.ready = time.Since(s.began)
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

// cpu returns the CPU time of the server, and that of its children that ended. With a keeper, its worker belongs to it.
func (s *server) cpu() (own, children time.Duration, err error) {
	own, children, err = processCPU(s.cmd.Process.Pid)
	for _, pid := range s.workers() {
		if o, c, err := processCPU(pid); err == nil { // otherwise it has just ended, and is in children
			own, children = own+o, children+c
		}
	}
	return own, children, err
}

func processCPU(pid int) (own, children time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseCPU(string(text))
}

// parseCPU reads a line of /proc/PID/stat. Its fields are counted behind the
// name of the program, which may contain anything.
func parseCPU(stat string) (own, children time.Duration, err error) {
	const utime, cstime = 11, 14 // with stime and cutime between them
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= cstime {
		return 0, 0, fmt.Errorf("no CPU times in %q", stat)
	}
	var times [4]time.Duration
	for i, field := range fields[utime : cstime+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("CPU times: %w", err)
		}
		times[i] = time.Duration(ticks) * clockTick
	}
	return times[0] + times[1], times[2] + times[3], nil
}

// clientCPU is the CPU time of this process.
func clientCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
