package directory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
)

// table returns a loaded table with these hosts.
func table(hosts ...fleet.Host) *Hosts {
	t := &Hosts{loaded: make(chan struct{}), hosts: map[string]*knownHost{}, drained: map[string]bool{}}
	for _, h := range hosts {
		t.hear(h, true)
	}
	close(t.loaded)
	return t
}

func TestChooseTheLeastLoadedHost(t *testing.T) {
	for _, row := range []struct {
		what  string
		hosts []fleet.Host
		query Query
		want  string // the names that are possible
	}{
		{"one", []fleet.Host{{Name: "a", Capacity: 1}}, Query{}, "a"},
		{"fewer commands", []fleet.Host{{Name: "a", Capacity: 4, Running: 2}, {Name: "b", Capacity: 4, Running: 1}}, Query{}, "b"},
		{"more capacity", []fleet.Host{{Name: "a", Capacity: 2, Running: 1}, {Name: "b", Capacity: 16, Running: 4}}, Query{}, "b"},
		{"fewer sessions", []fleet.Host{{Name: "a", Capacity: 1, Sessions: 3}, {Name: "b", Capacity: 1}}, Query{}, "b"},
		{"equal", []fleet.Host{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 1}}, Query{}, "a b"},
		{"full", []fleet.Host{{Name: "a", Capacity: 1, Running: 9}}, Query{}, "a"},
		{"draining", []fleet.Host{{Name: "a", Capacity: 1, Draining: true}, {Name: "b", Capacity: 1, Running: 9}}, Query{}, "b"},
		{"label", []fleet.Host{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 1, Running: 9, Labels: []string{"gpu=h100"}}}, Query{Labels: []string{"gpu"}}, "b"},
		{"name", []fleet.Host{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 1, Running: 9}}, Query{Host: "b"}, "b"},
	} {
		got, err := table(row.hosts...).Choose(row.query)
		if err != nil || !strings.Contains(row.want, got.Name) {
			t.Errorf("%s: %q, %v", row.what, got.Name, err)
		}
	}
}

// Sessions that follow each other faster than beats do not all go to the same host.
func TestChooseCountsWhatItHasChosen(t *testing.T) {
	hosts := table(fleet.Host{Name: "a", Capacity: 10}, fleet.Host{Name: "b", Capacity: 10, Running: 4})
	got := map[string]int{}
	for range 16 {
		h, err := hosts.Choose(Query{})
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name]++
	}
	if got["a"] != 10 || got["b"] != 6 {
		t.Error(got)
	}
}

func TestNoHostMatches(t *testing.T) {
	for _, row := range []struct {
		what      string
		hosts     []fleet.Host
		query     Query
		want      string
		temporary bool
	}{
		{"none at all", nil, Query{}, "no host has joined the fleet yet", true},
		{"label", []fleet.Host{{Name: "a", Capacity: 1}}, Query{Labels: []string{"gpu", "eu"}}, "the fleet has no host with the label gpu and the label eu", false},
		{"draining", []fleet.Host{{Name: "a", Capacity: 1, Draining: true}}, Query{Host: "a"}, "every host with the name a is draining", false},
	} {
		_, err := table(row.hosts...).Choose(row.query)
		if _, temporary := errors.AsType[*Unavailable](err); err == nil || !strings.Contains(err.Error(), row.want) || temporary != row.temporary {
			t.Errorf("%s: %v", row.what, err)
		}
	}
	if _, err := (&Hosts{loaded: make(chan struct{})}).Choose(Query{}); !strings.Contains(err.Error(), "not known yet") {
		t.Error(err)
	}
}

// A host that is not heard of is unreachable after a while, is told to be so once, and is back with its next beat.
func TestStateOfASilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := table(fleet.Host{Name: "a", Capacity: 1})
		expect := func(want State) {
			t.Helper()
			if h, known := hosts.Get("a"); !known || h.State != want {
				t.Errorf("%+v, want %s", h, want)
			}
		}
		told := func(want bool) {
			t.Helper()
			changed := hosts.Changed()
			hosts.look(time.Now())
			select {
			case <-changed:
				if !want {
					t.Error("a change is told")
				}
			default:
				if want {
					t.Error("the change is not told")
				}
			}
		}
		time.Sleep(fleet.LeaseTime)
		expect(Reachable)
		told(false)
		time.Sleep(time.Second)
		expect(Unreachable)
		told(true)
		told(false)
		if _, err := hosts.Choose(Query{}); err == nil || !strings.Contains(err.Error(), "no host of the fleet is reachable now") {
			t.Error(err)
		}
		hosts.hear(fleet.Host{Name: "a", Capacity: 1}, true)
		expect(Reachable)
		hosts.MarkGone("a")
		expect(Unreachable)
		hosts.hear(fleet.Host{Name: "a", Capacity: 1}, false) // its lease is older
		expect(Unreachable)
		hosts.hear(fleet.Host{Name: "a", Capacity: 1}, true)
		expect(Reachable)
		time.Sleep(forgetAfter + time.Second)
		told(true)
		if _, known := hosts.Get("a"); known {
			t.Error("the host is not forgotten")
		}
	})
}

// The farewell of a process that was replaced does not remove the host.
func TestFarewell(t *testing.T) {
	old := fleet.Host{Name: "a", Capacity: 1, Instance: "i", Process: "1"}
	now := fleet.Host{Name: "a", Capacity: 1, Instance: "i", Process: "2"}
	hosts := table(old, now)
	old.Leaving, now.Leaving = true, true
	hosts.hear(old, true)
	if _, known := hosts.Get("a"); !known {
		t.Error("the host is gone")
	}
	hosts.hear(now, true)
	if _, known := hosts.Get("a"); known {
		t.Error("the host is still there")
	}
}

// manyHosts is more than Choose compares.
const manyHosts = 10_000

// many returns so many hosts, of which every tenth has a label, and one another.
func many() []fleet.Host {
	list := make([]fleet.Host, manyHosts)
	for i := range list {
		list[i] = fleet.Host{Name: fmt.Sprint("h", i), Capacity: 1 << 20, Running: i, Labels: []string{"zone=eu"}}
		if i%10 == 0 {
			list[i].Labels = append(list[i].Labels, "gpu=h100")
		}
	}
	list[4711].Labels = []string{"rare"}
	return list
}

// Among very many hosts, a busy one is hardly ever chosen, and one that is the only one that matches always.
func TestChooseAmongMany(t *testing.T) {
	hosts := table(many()...)
	for what, q := range map[string]Query{"any": {}, "label": {Labels: []string{"zone=eu", "gpu"}}} {
		for range 100 { // that all of a sample are in the busier half has a probability of 2 to the power of -64
			h, err := hosts.Choose(q)
			if err != nil || h.Running > manyHosts/2 || !h.HasLabels(q.Labels) {
				t.Fatalf("%s: %+v, %v", what, h, err)
			}
		}
	}
	for what, q := range map[string]Query{"rare": {Labels: []string{"rare"}}, "name": {Host: "h4711"}} {
		if h, err := hosts.Choose(q); err != nil || h.Name != "h4711" {
			t.Errorf("%s: %+v, %v", what, h, err)
		}
	}
	if _, err := hosts.Choose(Query{Labels: []string{"rare", "gpu"}}); err == nil || !strings.Contains(err.Error(), "the fleet has no host") {
		t.Error(err)
	}
	for i := range manyHosts {
		if i != 4712 {
			hosts.setDrained(fmt.Sprint("h", i), true)
		}
	}
	if h, err := hosts.Choose(Query{}); err != nil || h.Name != "h4712" {
		t.Errorf("the only one that is not drained: %+v, %v", h, err)
	}
	hosts.setDrained("h4712", true)
	if _, err := hosts.Choose(Query{}); err == nil || !strings.Contains(err.Error(), "every host of the fleet is draining") {
		t.Error(err)
	}
}

func (t *Hosts) setDrained(name string, drained bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setDrainedLocked(name, drained)
}

// The index has each host under its present labels, whatever came and went before.
func TestIndex(t *testing.T) {
	hosts := table()
	random := rand.New(rand.NewPCG(1, 2))
	labels := []string{"a", "a=1", "a=2", "b=1", "b/c", "d"}
	for range 2000 {
		h := fleet.Host{Name: fmt.Sprint("h", random.IntN(40)), Capacity: 1}
		for _, label := range labels {
			if random.IntN(3) == 0 {
				h.Labels = append(h.Labels, label)
			}
		}
		h.Leaving = random.IntN(4) == 0
		hosts.hear(h, true)
	}
	if len(hosts.hosts) == 0 || len(hosts.index.all) != len(hosts.hosts) {
		t.Errorf("%d hosts, %d in the index", len(hosts.hosts), len(hosts.index.all))
	}
	for _, label := range append(labels, "b", "b=", "c") {
		want := 0
		for _, h := range hosts.hosts {
			if h.HasLabels([]string{label}) {
				want++
			}
		}
		got := hosts.index.candidates([]string{label})
		for _, h := range got {
			if !h.HasLabels([]string{label}) || hosts.hosts[h.Name] != h {
				t.Errorf("%s: %+v", label, h.Host)
			}
		}
		if len(got) != want {
			t.Errorf("%s: %d hosts, want %d", label, len(got), want)
		}
	}
	for _, h := range hosts.hosts {
		gone := h.Host
		gone.Leaving = true
		hosts.hear(gone, true)
	}
	if len(hosts.index.all) != 0 || len(hosts.index.byLabel) != 0 {
		t.Errorf("left: %+v", hosts.index)
	}
}

func BenchmarkChoose(b *testing.B) {
	t := table(many()...)
	for what, q := range map[string]Query{"any": {}, "label": {Labels: []string{"gpu"}}, "rare": {Labels: []string{"rare"}}, "none": {Labels: []string{"zone=eu", "none"}}, "name": {Host: "h1"}} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				if _, err := t.Choose(q); err != nil && what != "none" {
					b.Fatal(err)
				}
			}
		})
	}
	for i := range manyHosts {
		t.setDrained(fmt.Sprint("h", i), i != 1)
	}
	b.Run("all but one drained", func(b *testing.B) {
		for b.Loop() {
			if _, err := t.Choose(Query{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
