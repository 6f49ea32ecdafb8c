//go:build linux && (amd64 || arm64)

package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Modes of the test's worker.
const (
	modeServe = "serve" // does what requests tell it
	modeCrash = "crash" // ends as soon as it was given everything
	modeStorm = "storm" // starts commands, and dies
	modeSweep = "sweep" // the same, and worker n dies behind its n-th lasting effect
)

// Names of files. While the first exists, workers crash at their start; while the second exists, none makes way for another one.
const (
	crashFile = "crash"
	busyFile  = "busy"
)

// A request tells the worker what to do, on a connection to its listener.
type request struct {
	Do         string
	Slot       int32
	Which      int32
	Pid, Count int
	Text       string
}

type response struct {
	Err    string
	Text   string
	Pid    int
	Number int
	Cause  Cause
	Detail int
	Deaths int
	Limit  int
	Exit   Exit
	Held   [][2]int32
}

// A testServer is the state of the test's worker.
type testServer struct {
	*Worker
	dir    string
	ledger *ledger
	order  Order
	ended  chan struct{} // closed when SIGTERM or the end of the keeper ends the server
	end    func()

	reloads atomic.Int64 // how often it was told to read its settings

	mu       sync.Mutex
	held     map[[2]int32]int
	children []int // started by this worker or adopted by request
}

// testWorker is the main function of a worker. What it does wrong on purpose depends on the name of its program.
func testWorker(args []string) int {
	if err := runTestWorker(args); err != nil {
		fmt.Fprintln(os.Stderr, "test worker:", err)
		return 9
	}
	return 0
}

// programName is the name of the file that this process executes.
func programName() string {
	name, _ := os.Readlink("/proc/self/exe")
	return filepath.Base(name)
}

func runTestWorker(args []string) error {
	if args[0] == modeStorm || args[0] == modeSweep {
		if err := planDeath(args[0], args[1]); err != nil {
			return err
		}
	}
	w, err := Connect()
	if err != nil {
		return err
	}
	ending := make(chan os.Signal, 4)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	held, order, prove, err := w.Receive()
	if err != nil {
		return err
	}
	name := programName()
	if prove {
		switch {
		case strings.HasPrefix(name, "crash-prove"):
			return errors.New("crashes while it proves itself")
		case strings.HasPrefix(name, "hang-prove"):
			select {}
		}
		for _, h := range held {
			unix.Close(h.FD)
		}
		if err := w.Ready(); err != nil {
			return err
		}
		if strings.HasPrefix(name, "leave-proved") {
			return errors.New("crashes when it has proved itself")
		}
		if held, order, _, err = w.Receive(); err != nil {
			return err
		}
	}
	s := &testServer{Worker: w, dir: args[1], order: order, held: map[[2]int32]int{}, ended: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.ended) })
	for _, h := range held {
		s.held[[2]int32{h.Slot, h.Which}] = h.FD
	}
	if s.ledger, err = openLedger(os.NewFile(uintptr(s.held[[2]int32{Shared, whichLedger}]), "ledger")); err != nil {
		return err
	}
	if n := s.ledger.starts.Add(1); n <= int64(len(s.ledger.startTimes)) {
		s.ledger.startTimes[n-1].Store(int64(now()))
	}
	_, err = os.Stat(filepath.Join(args[1], crashFile))
	switch {
	case args[0] == modeCrash, strings.HasPrefix(name, "crash-serve"), err == nil:
		return errors.New("crashes at its start")
	case strings.HasPrefix(name, "hang-serve"):
		select {}
	case args[0] == modeStorm || args[0] == modeSweep:
		return s.storm(args[0], ending)
	}
	return s.serve(ending)
}

// serve answers requests until the server ends.
func (s *testServer) serve(ending chan os.Signal) error {
	file := os.NewFile(uintptr(s.held[[2]int32{Shared, whichListener}]), "listener")
	l, err := net.FileListener(file)
	if err != nil {
		return err
	}
	s.Serve(Events{
		Ended:  s.reapUnclaimed,
		Missed: func(slot, which int32) { fmt.Fprintln(os.Stderr, "missed", slot, which) },
		Drain:  func(time.Duration) { go s.makeWay() }, // ends with the process
		Reload: func() { s.reloads.Add(1) },
		Lost:   func(error) { s.end() },
	})
	s.ledger.workerPid.Store(int64(os.Getpid()))
	if err := s.Ready(); err != nil {
		return err
	}
	if beat := s.order.Beat; beat > 0 {
		go func() {
			for range time.Tick(beat / 4) {
				s.Beat()
			}
		}()
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(conn)
		}
	}()
	select {
	case <-ending:
	case <-s.ended:
	}
	s.mu.Lock()
	children := s.children
	s.mu.Unlock()
	for _, pid := range children {
		unix.Kill(-pid, unix.SIGKILL)
		unix.Kill(pid, unix.SIGKILL)
	}
	s.Bye()
	return nil
}

// makeWay ends this worker as soon as the test lets it.
func (s *testServer) makeWay() {
	for {
		if _, err := os.Stat(filepath.Join(s.dir, busyFile)); err != nil {
			os.Exit(0)
		}
		time.Sleep(time.Millisecond)
	}
}

// reapUnclaimed reaps children of the keeper that are not commands.
func (s *testServer) reapUnclaimed(pids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range pids {
		claimed := false
		for _, child := range s.children {
			claimed = claimed || child == pid
		}
		for i := range s.ledger.slots {
			claimed = claimed || int(s.ledger.slots[i].pid.Load()) == pid
		}
		if !claimed {
			s.ledger.counts[caseOrphan].Add(1)
			s.Reap(pid)
		}
	}
}

func (s *testServer) answer(conn net.Conn) {
	defer conn.Close()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var r request
		if in.Decode(&r) != nil {
			return
		}
		answer := response{Pid: os.Getpid(), Number: s.order.Number, Cause: s.order.Cause, Detail: s.order.Detail, Deaths: s.order.Deaths, Limit: s.order.Limit}
		if err := s.do(r, &answer); err != nil {
			answer.Err = err.Error()
		}
		if out.Encode(answer) != nil {
			return
		}
	}
}

func (s *testServer) do(r request, answer *response) (err error) {
	ctx := context.Background()
	s.mu.Lock()
	fd, given := s.held[[2]int32{r.Slot, r.Which}]
	s.mu.Unlock()
	switch r.Do {
	case "":
		s.mu.Lock()
		defer s.mu.Unlock()
		for pair := range s.held {
			answer.Held = append(answer.Held, pair)
		}
	case "hold": // a pipe that contains the text
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return err
		}
		unix.Write(pipe[1], []byte(r.Text))
		defer unix.Close(pipe[1])
		return s.hold(r.Slot, r.Which, pipe[0])
	case "holdMany": // one descriptor, under many numbers, each in its own message
		for i := range r.Count {
			if err := s.Hold(Held{r.Slot, r.Which + int32(i), 1}); err != nil {
				return err
			}
		}
	case "holdUnchecked": // as a worker that does not know the limit
		s.Worker.mu.Lock()
		s.Worker.limit = 1 << 20
		s.Worker.mu.Unlock()
		return s.Hold(Held{r.Slot, r.Which, 1})
	case "read":
		if !given {
			return errors.New("not given")
		}
		text := make([]byte, 4096)
		n, err := unix.Read(fd, text)
		if err != nil {
			return err
		}
		answer.Text = string(text[:n])
	case "drop":
		return s.Drop(r.Slot, r.Which)
	case "free":
		return s.Free(r.Slot)
	case "run": // a command whose standard input is held
		return s.run(r, answer)
	case "closeInput":
		unix.Close(fd)
		return s.Drop(r.Slot, r.Which)
	case "many": // questions at once
		var group sync.WaitGroup
		for range r.Count {
			group.Go(func() {
				if exit, err := s.Status(ctx, r.Pid); err != nil || exit.Child {
					fmt.Fprintln(os.Stderr, "status:", exit, err)
					os.Exit(1)
				}
			})
		}
		group.Wait()
	case "adopt":
		s.mu.Lock()
		s.children = append(s.children, r.Pid)
		s.mu.Unlock()
	case "status":
		answer.Exit, err = s.Status(ctx, r.Pid)
		return err
	case "askAndDoNotRead": // a worker that does not read answers
		s.Worker.file.SetReadDeadline(time.Unix(1, 0))
		s.Worker.reader.Wait()
		if err := s.tellNow(msgStatus, int32(os.Getpid()), 1); err != nil {
			return err
		}
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(s.socket), Events: unix.POLLIN}}, -1)
		return err
	case "reap":
		return s.Reap(r.Pid)
	case "reloads": // how often the worker was told to read its settings
		answer.Text = strconv.Itoa(int(s.reloads.Load()))
	case "beat":
		return s.Beat()
	case "upgrade":
		file, err := os.Open(r.Text)
		if err != nil {
			return err
		}
		defer file.Close()
		return s.Upgrade(ctx, file)
	case "renew":
		return s.Renew(ctx)
	case "program":
		answer.Text = programName()
	case "exit":
		os.Exit(r.Count)
	case "panic":
		go panic("on request")
		select {}
	default:
		return fmt.Errorf("unknown request %q", r.Do)
	}
	return nil
}

func (s *testServer) hold(slot, which int32, fd int) error {
	s.mu.Lock()
	s.held[[2]int32{slot, which}] = fd
	s.mu.Unlock()
	return s.Hold(Held{slot, which, fd})
}

// run starts a shell command.
func (s *testServer) run(r request, answer *response) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if err := s.hold(r.Slot, r.Which, pipe[1]); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", r.Text}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []uintptr{uintptr(pipe[0]), null.Fd(), 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	unix.Close(pipe[0])
	if err != nil {
		return err
	}
	s.ledger.slots[r.Slot].pid.Store(int32(pid))
	s.mu.Lock()
	s.children = append(s.children, pid)
	s.mu.Unlock()
	answer.Pid = pid
	return nil
}

// Variables are initialized before the init function that runs the keeper.
var _ = crashInCheck()

// crashInCheck ends a program of this name when it should check the state of a keeper.
func crashInCheck() bool {
	if strings.HasPrefix(programName(), "crash-check") && slices.Contains(os.Args, checkArgument) {
		os.Exit(9)
	}
	return true
}
