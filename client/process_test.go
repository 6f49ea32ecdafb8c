package client_test

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// If a server reports two exits of a process, the first one counts.
func TestTwoExits(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1 x2")...)
	first.Say(`{"method":"process/exited","params":{"processId":"P","seq":3,"exitCode":9,"sandboxDenied":false}}`)
	first.Say(scripted.Events("P", "c4")...)
	if exit, err := p.Wait(tethertest.Within(t)); err != nil || exit.Code != 0 {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

// If a process is closed without an exit, Wait returns an error.
func TestClosedWithoutExit(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1 c2")...)
	if exit, err := p.Wait(tethertest.Within(t)); err == nil {
		t.Errorf("Wait: %+v", exit)
	}
}

// Calls during Close return, and they leave no goroutine behind (TestMain looks for those).
func TestUseWhileClosing(t *testing.T) {
	t.Parallel()
	url := tethertest.StartServer(t, server.Config{}).URL
	for range 20 {
		c, err := client.Dial(tethertest.Within(t), url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var processes []*client.Process
		for range 8 {
			cmd := sh("cat")
			cmd.Stdin = true
			processes = append(processes, start(t, c, cmd))
		}
		var users sync.WaitGroup
		for _, p := range processes {
			users.Go(func() { p.Write(tethertest.Within(t), []byte("x")) })
			users.Go(func() { c.Start(tethertest.Within(t), sh("true")) })
		}
		c.Close()
		users.Wait()
	}
}

// Close ends the wait of a reader.
func TestCloseWakesReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewPipes(t)
		_, p, _ := started(t, s, client.Options{Connect: s.Connect})
		r := p.Output()
		done := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(r)
			done <- err
		}()
		synctest.Wait()
		r.Close()
		select {
		case err := <-done:
			if err == nil {
				t.Error("no error")
			}
		case <-time.After(5 * time.Second):
			t.Error("the reader still waits")
			p.Subscribe()
		}
	})
}
