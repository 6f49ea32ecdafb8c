package fleet

import (
	"runtime"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "box-1", "0", strings.Repeat("a", 63)} {
		if err := CheckHostName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "-a", "a-", "A", "a.b", "a*", ">", "a b", "ä", "a\n", strings.Repeat("a", 64)} {
		if CheckHostName(name) == nil {
			t.Errorf("host name %q is accepted", name)
		}
	}
	for _, label := range []string{"gpu", "zone=eu-west", "k8s.io/arch=x86_64", "empty="} {
		if err := CheckLabel(label); err != nil {
			t.Error(err)
		}
	}
	for _, label := range []string{"", "=v", "k=a b", "K", "k=\n", "k=a=b", strings.Repeat("k", 64), "k=" + strings.Repeat("v", 126)} {
		if CheckLabel(label) == nil {
			t.Errorf("label %q is accepted", label)
		}
	}
	if CheckLabels(make([]string, MaxLabels+1)) == nil {
		t.Error("too many labels are accepted")
	}
}

// A host may ask a gateway about a link with a text of any length. It takes no memory to refuse it.
func TestParseLinkOfALongText(t *testing.T) {
	text := strings.Repeat(".", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, ok := ParseLink(text); ok {
		t.Error("it is accepted")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<16 {
		t.Errorf("%d bytes", n)
	}
	s := LinkSubject{"box", "p", "g", "l", true}
	if got, ok := ParseLink(s.String()); !ok || got != s {
		t.Errorf("%+v", got)
	}
	if _, ok := ParseLink(s.String() + ".more"); ok {
		t.Error("a longer subject is accepted")
	}
}

func TestHostHasLabels(t *testing.T) {
	h := Host{Labels: []string{"gpu", "zone=eu"}}
	for query, want := range map[string]bool{"": true, "gpu": true, "zone": true, "zone=eu": true, "gpu zone": true, "zone=us": false, "gpu=a": false, "zo": false, "gpu cpu": false} {
		if got := h.HasLabels(strings.Fields(query)); got != want {
			t.Errorf("labels %q: %v", query, got)
		}
	}
}

func TestSubjectsOfALink(t *testing.T) {
	down := LinkSubject{Host: "box", Process: "1", Gateway: "gate", Link: "l1"}
	for _, want := range []LinkSubject{down, down.Back()} {
		if got, ok := ParseLink(want.String()); !ok || got != want {
			t.Error(got, ok)
		}
	}
	if down.Back().Back() != down || down.Back() == down {
		t.Error("Back does not turn the direction")
	}
	for _, other := range []string{"", AliveSubject("gate"), HostInbox("box") + ".a.b", "tether.host.box.1.sideways.gate.l1", "tether.hosts.box.1.up.gate.l1", down.String() + ".x"} {
		if s, ok := ParseLink(other); ok {
			t.Errorf("%s is taken for a subject of frames: %+v", other, s)
		}
	}
}

// The key of a session does not contain the id, and differs between sessions.
func TestSessionKey(t *testing.T) {
	a, b := SessionKey("one"), SessionKey("two")
	if a == b || strings.Contains(a, "one") || len(a) != 64 {
		t.Error(a, b)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"principal":"p","peer":"q","window":1,"session":"","epoch":3}`))
	f.Add([]byte(`{"session":"` + SessionKey("x") + `","ttlMs":30000}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := DecodeOpen(b); err == nil && (o.Window < 0 || len(o.Principal) > maxPrincipal) {
			t.Errorf("%+v", o)
		}
		if a, err := DecodeAttached(b); err == nil && len(a.Session) != len(SessionKey("")) {
			t.Errorf("%+v", a)
		}
	})
}
