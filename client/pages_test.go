package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// Another client goes through the log of a process in pages, from its end to its first byte and back, also while its connection is lost.
func TestPages(t *testing.T) {
	t.Parallel()
	owner, other, cable := twoClients(t)
	p := start(t, owner, sh(`seq 200000; echo error >&2; exit 3`))
	if _, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	remote := other.Remote(owner.PublicID(), p.ID())
	var back, forward []client.Observed
	pages := 0
	for before := uint64(1 << 60); ; before = back[0].Seq {
		if pages++; pages == 3 {
			cable.Sever()
		}
		page, err := remote.PageBefore(tethertest.Within(t), before, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) == 0 {
			break
		}
		back = append(page.Events, back...)
		if last := back[len(back)-1].Seq; page.First != 1 || page.Next != last+1 {
			t.Fatalf("the log has the events %d to %d, and the last page ends with %d", page.First, page.Next-1, last)
		}
	}
	for after := uint64(0); ; after = forward[len(forward)-1].Seq {
		page, err := remote.PageAfter(tethertest.Within(t), after, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) == 0 {
			break
		}
		forward = append(forward, page.Events...)
	}
	text := func(events []client.Observed) string {
		var b strings.Builder
		for i, e := range events {
			if e.Seq != uint64(i+1) || e.Time.IsZero() {
				t.Fatalf("event %d is at place %d", e.Seq, i)
			}
			if e.Stream == "stdout" {
				b.Write(e.Data)
			}
		}
		return b.String()
	}
	if b, f := text(back), text(forward); b != f || strings.Count(b, "\n") != 200_000 || !strings.HasSuffix(b, "\n200000\n") {
		t.Errorf("%d and %d bytes", len(b), len(f))
	}
	if links := cable.Links(); pages < 5 || links < 2 {
		t.Errorf("%d pages, %d connections", pages, links)
	}
	exited, closed := back[len(back)-2], back[len(back)-1]
	if exited.Kind != client.Exited || exited.ExitCode != 3 || exited.Usage == nil || closed.Kind != client.Closed {
		t.Errorf("the end is %+v, %+v", exited, closed)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	p := start(t, owner, sh("exec sleep 1000"))
	d, err := other.Remote(owner.PublicID(), p.ID()).Describe(tethertest.Within(t))
	if err != nil || d.Process.ProcessID != p.ID() || d.Sandbox.Type != "none" || len(d.Text) == 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// The client sends no such request to a server without the feature.
func TestPagesAndDescriptionsNeedTheFeature(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	tethertest.Plain(line)
	r := dial(t, line.URL(), client.Options{}).Remote("s", "p")
	_, before := r.PageBefore(tethertest.Within(t), 1, 0)
	_, after := r.PageAfter(tethertest.Within(t), 1, 0)
	_, describe := r.Describe(tethertest.Within(t))
	for _, err := range []error{before, after, describe} {
		if !errors.Is(err, client.ErrUnsupported) {
			t.Error(err)
		}
	}
}
