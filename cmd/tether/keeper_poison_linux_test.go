package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A session that each worker dies of is set aside: its client is told why, and its commands run on. The other sessions go on, and
// the next worker does not die.
func TestPoisonedSessionIsSetAside(t *testing.T) {
	t.Parallel()
	for _, way := range tethertest.Scaled([]string{"panic"}, []string{"panic", "kill", "segv"}) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := startKept(t, crash.Variable+"=session.restoring@poison,"+way)
			poisoned, healthy := dialKept(t, s.url), dialKept(t, s.url)
			poison, pid := startSleep(t, poisoned, "poison")
			p := startEcho(t, healthy)
			s.killWorker(t)
			if exit, err := poison.Wait(t.Context()); !errors.Is(err, client.ErrSessionLost) || !strings.Contains(err.Error(), "was set aside") {
				t.Errorf("the client of the session is told %+v, %v", exit, err)
			}
			s.killWorker(t)
			checkEcho(t, p)
			if err := syscall.Kill(pid, 0); err != nil {
				t.Errorf("the command that was set aside is gone: %v", err)
			}
			s.stop(t)
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the command has outlived the server: %v", err)
			}
		})
	}
}

// startSleep starts a command that runs until it is ended, and returns its pid.
func startSleep(t *testing.T, c *client.Client, id string) (p *client.Process, pid int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	p, err := c.Start(t.Context(), client.Command{ID: id, Argv: []string{"sh", "-c", "echo $$ >" + file + "; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() (err error) {
		text, _ := os.ReadFile(file)
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	})
	return p, pid
}

// If a part of the journal is damaged, the server goes on with the rest. A command whose start is lost is left alone, and ends with
// the server.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	c := dialKept(t, s.url)
	damaged, pid := startSleep(t, c, "damaged-command")
	sound := startEcho(t, c)
	s.damageJournal(t, "damaged-command")
	for range 2 {
		s.killWorker(t)
		if _, err := damaged.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "damaged-command") {
			t.Errorf("the client of the command is told %v", err)
		}
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("the command is gone: %v", err)
		}
	}
	checkEcho(t, sound)
	s.stop(t)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the command has outlived the server: %v", err)
	}
}

// damageJournal changes a byte of the first note that has a text.
func (s *keptServer) damageJournal(t *testing.T, text string) {
	t.Helper()
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Process.Pid))
	for _, name := range names {
		if target, _ := os.Readlink(name); !strings.HasPrefix(target, "/memfd:") {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		defer f.Close()
		const seekData, window = 3, 1 << 20
		b := make([]byte, window)
		for at, n := int64(0), 0; ; at += int64(n) {
			if at, err = f.Seek(at, seekData); err != nil {
				break
			}
			n, _ = f.ReadAt(b, at)
			if i := bytes.Index(b[:n], []byte(text)); i >= 0 {
				if _, err := f.WriteAt([]byte{b[i] ^ 1}, at+int64(i)); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	t.Fatal("there is no such note")
}
