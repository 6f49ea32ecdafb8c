package client_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// twoClients returns a client that owns processes, and another one whose cable can be cut.
func twoClients(t *testing.T) (owner, other *client.Client, cable *cable.Cable) {
	t.Helper()
	s := tethertest.StartServer(t, server.Config{})
	cable = tethertest.LayCable(t, s.URL)
	return dial(t, s.URL, client.Options{Name: "owner", Label: "build"}), dial(t, cable.URL(), client.Options{}), cable
}

func TestLists(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	p := start(t, owner, sh("sleep 1000"))
	sessions, err := other.Sessions(tethertest.Within(t))
	if err != nil || len(sessions) != 2 {
		t.Fatalf("Sessions: %+v, %v", sessions, err)
	}
	found := false
	for _, s := range sessions {
		found = found || s.SessionID == owner.PublicID() && s.ClientName == "owner" && s.Label == "build" && s.Processes == 1
	}
	if !found {
		t.Errorf("the session of the owner is not in %+v", sessions)
	}
	for _, session := range []string{"", owner.PublicID()} {
		if list, err := other.Processes(tethertest.Within(t), session); err != nil || len(list) != 1 || list[0].ProcessID != p.ID() {
			t.Errorf("Processes(%q): %+v, %v", session, list, err)
		}
	}
	if list, err := other.Processes(tethertest.Within(t), other.PublicID()); err != nil || len(list) != 0 {
		t.Errorf("own processes: %+v, %v", list, err)
	}
}

// watch reads an observation to its end.
func watch(t *testing.T, o *client.Observation, each func()) (output string, exit int) {
	t.Helper()
	var b strings.Builder
	exit = -1
	for last := uint64(0); ; {
		e, err := o.Next(tethertest.Within(t))
		if err == io.EOF {
			return b.String(), exit
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 || e.Time.IsZero() {
			t.Errorf("event %+v after %d", e, last)
		}
		last = e.Seq
		switch e.Kind {
		case client.Output:
			b.Write(e.Data)
		case client.Exited:
			exit = e.ExitCode
		}
		each()
	}
}

func TestObserveThroughCuts(t *testing.T) {
	t.Parallel()
	owner, other, cable := twoClients(t)
	cmd := sh("i=0; while read x; do i=$((i+1)); echo line $i; done; exit 3")
	cmd.Stdin = true
	p := start(t, owner, cmd)
	o, err := other.Observe(tethertest.Within(t), owner.PublicID(), p.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var want strings.Builder
	lines := 0
	next := func() {
		if lines == 30 {
			if err := p.CloseStdin(tethertest.Within(t)); err != nil {
				t.Error(err)
			}
		} else if lines < 30 {
			if err := p.Write(tethertest.Within(t), []byte("x\n")); err != nil {
				t.Error(err)
			}
			fmt.Fprintf(&want, "line %d\n", lines+1)
		}
		lines++
		if lines%7 == 0 {
			cable.Cut()
			cable.Mend()
		}
	}
	next()
	if got, exit := watch(t, o, next); got != want.String() || exit != 3 {
		t.Errorf("saw %q and exit code %d", got, exit)
	}
	if n := other.Status().Connection; n < 4 {
		t.Errorf("%d connections", n)
	}
}

// A slow observer gets the output in portions.
func TestSlowObserver(t *testing.T) {
	t.Parallel()
	const size = 12_000_000
	owner, other, _ := twoClients(t)
	p := start(t, owner, sh(fmt.Sprintf("head -c %d /dev/zero; exec sleep 1000", size)))
	sub := p.Subscribe() // it does not read, so the server keeps the output
	defer sub.Close()
	o, err := other.Observe(tethertest.Within(t), owner.PublicID(), p.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error {
		list, err := other.Processes(tethertest.Within(t), owner.PublicID())
		if err == nil && list[0].Observers > 0 {
			err = errors.New("the observation was not given up")
		}
		return err
	})
	seen := 0
	for seen < size {
		e, err := o.Next(tethertest.Within(t))
		if err != nil || e.Kind != client.Output {
			t.Fatalf("%+v, %v after %d bytes", e, err, seen)
		}
		seen += len(e.Data)
	}
	if _, err := p.Terminate(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	if e, err := o.Next(tethertest.Within(t)); e.Kind != client.Exited || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestObserveErrors(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	if _, err := other.Observe(tethertest.Within(t), owner.PublicID(), "missing", 0); err == nil {
		t.Error("a process that does not exist was observed")
	}
	p := start(t, owner, sh("sleep 1000"))
	o, err := other.Observe(tethertest.Within(t), owner.PublicID(), p.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- second(o.Next(tethertest.Within(t))) }()
	o.Close()
	if err := <-waiting; err == nil {
		t.Error("Next of a closed observation")
	}
	tethertest.Eventually(t, func() error {
		list, err := other.Processes(tethertest.Within(t), owner.PublicID())
		if err == nil && list[0].Observers > 0 {
			err = errors.New("still observed")
		}
		return err
	})
	if o, err = other.Observe(tethertest.Within(t), owner.PublicID(), p.ID(), 0); err != nil {
		t.Fatal(err)
	}
	go func() { waiting <- second(o.Next(tethertest.Within(t))) }()
	other.Close()
	if err := <-waiting; !errors.Is(err, client.ErrClosed) {
		t.Errorf("Next of a closed client: %v", err)
	}
}

// Events that arrive before the goroutine has the answer are delivered, and evicted events are a
// gap.
func TestObservedGap(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	output := func(seq int, text string) string {
		return fmt.Sprintf(`{"method":"tether/process/output","params":{"observeId":1,"seq":%d,"timeMs":1,"stream":"stdout","chunk":"%s"}}`, seq, text)
	}
	wait := scripted.Play(t, func() {
		p := s.Accept()
		p.Serve("initialize", `{"sessionId":"S","tether":{"version":"1","publicId":"P","ttlMs":30000,"features":["observe"]}}`)
		p.Expect("initialized")
		m := p.Expect("tether/process/observe")
		p.Say(m.Answer(`{"observeId":1,"nextSeq":9}`), output(1, "eA=="),
			`{"method":"tether/process/evicted","params":{"observeId":1,"firstSeq":5}}`, output(5, "eQ=="),
			`{"method":"tether/process/closed","params":{"observeId":1,"seq":6,"timeMs":1}}`)
	})
	c := dial(t, s.URL(), client.Options{})
	o, err := c.Observe(tethertest.Within(t), "P", "p", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		e, err := o.Next(tethertest.Within(t))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d:%d-%d", e.Kind, e.First, e.Seq))
	}
	if want := "1:0-1 4:2-4 1:0-5 3:0-6"; strings.Join(got, " ") != want {
		t.Errorf("events %v, want %s", got, want)
	}
	wait()
}

func TestClosedObservation(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	p := start(t, owner, sh("echo one; sleep 1000"))
	o, err := other.Observe(tethertest.Within(t), owner.PublicID(), p.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		for {
			if _, err := o.Next(tethertest.Within(t)); err != nil {
				waiting <- err
				return
			}
		}
	}()
	o.Close()
	for _, err := range []error{<-waiting, second(o.Next(tethertest.Within(t)))} {
		if !errors.Is(err, client.ErrObservationClosed) {
			t.Errorf("Next after Close: %v", err)
		}
	}
}

// The end of a session ends the observations of its processes, with the reason.
func TestObserveUntilTheSessionEnds(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	p := start(t, owner, sh("echo ready; exec sleep 1000"))
	o, err := other.Observe(tethertest.Within(t), owner.PublicID(), p.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if e, err := o.Next(tethertest.Within(t)); err != nil || string(e.Data) != "ready\n" {
		t.Fatalf("%+v, %v", e, err)
	}
	if err := owner.End(tethertest.Within(t)); err != nil {
		t.Error(err)
	}
	for {
		e, err := o.Next(tethertest.Within(t))
		if err == nil && (e.Kind == client.Exited || e.Kind == client.Closed) {
			continue // it may have come before the end
		}
		if !errors.Is(err, client.ErrRemoved) && !errors.Is(err, io.EOF) {
			t.Errorf("%+v, %v", e, err)
		}
		break
	}
}
