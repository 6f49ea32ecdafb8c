package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

const patience = hang.Limit

// connect starts a server of NATS, and returns a function that connects to it.
func connect(t *testing.T) func(inbox string) *nats.Conn {
	t.Helper()
	return connectWith(t, 1<<30)
}

// connectWith is connect with a limit of the store in bytes.
func connectWith(t *testing.T, limit int64) func(inbox string) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: limit, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return func(inbox string) *nats.Conn {
		t.Helper()
		c, err := nats.Connect(s.ClientURL(), nats.CustomInboxPrefix(inbox))
		if err != nil {
			t.Fatal(err)
		}
		closed := c.StatusChanged(nats.CLOSED)
		t.Cleanup(func() {
			c.Close()
			<-closed
		})
		return c
	}
}

func open(t *testing.T, bus *nats.Conn, mayMake bool) *bucket {
	t.Helper()
	b, err := newBucket(bus, fleet.SessionsBucket, mayMake)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An entry is written only by a writer that knows its revision; both kinds of reads find it; an entry that was deleted can be written as
// one that never existed, with its revision.
func TestCompareAndSet(t *testing.T) {
	t.Parallel()
	b := open(t, connect(t)("_I"), true)
	expect := func(want string, rev uint64) {
		t.Helper()
		for _, leader := range []bool{false, true} {
			if e, err := b.get(t.Context(), "k", leader); err != nil || string(e.value) != want || e.rev != rev || (want == "") != (e.value == nil) {
				t.Errorf("leader %v: %+v %v, want %q %d", leader, e, err, want, rev)
			}
		}
	}
	must := func(value string, rev uint64) uint64 {
		t.Helper()
		var v []byte
		if value != "" {
			v = []byte(value)
		}
		n, err := b.put(t.Context(), "k", v, rev, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	expect("", 0)
	first := must("one", 0)
	expect("one", first)
	if _, err := b.put(t.Context(), "k", []byte("two"), 0, 0); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	second := must("two", first)
	expect("two", second)
	if _, err := b.put(t.Context(), "k", []byte("three"), first, 0); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	expect("two", second)
	deleted := must("", second)
	expect("", deleted)
	expect("", deleted)
	must("again", deleted)
}

// An entry ends by itself, and can be made again.
func TestEntryEnds(t *testing.T) {
	t.Parallel()
	bus := connect(t)("_I")
	b := open(t, bus, true)
	if _, err := b.put(t.Context(), "k", []byte("v"), 0, time.Second); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for { // there is no event for an end
		e, err := b.get(t.Context(), "k", true)
		if err != nil || time.Now().After(deadline) {
			t.Fatal(e, err)
		}
		if e.value == nil {
			break
		}
	}
	if _, err := b.put(t.Context(), "k", []byte("v"), 0, 0); err != nil {
		t.Error(err)
	}
}

// All entries are read, over several pages, without those that were deleted.
func TestReadAll(t *testing.T) {
	t.Parallel()
	b := open(t, connect(t)("_I"), true)
	var want []string
	for i := range 2*pageSize + 7 {
		key := fmt.Sprint("k", i)
		rev, err := b.put(t.Context(), key, []byte("v"), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if i%100 == 50 {
			if _, err := b.put(t.Context(), key, nil, rev, 0); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want = append(want, key)
	}
	var got []string
	if err := b.each(t.Context(), func(e entry) { got = append(got, e.key) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, not %d", len(got), len(want))
	}
}

// Only gateways make buckets. A bucket without entries is read as one without entries.
func TestBucketIsMade(t *testing.T) {
	t.Parallel()
	bus := connect(t)("_I")
	none := func(entry) { t.Error("an entry") }
	var away *Unavailable
	if err := open(t, bus, false).each(t.Context(), none); !errors.As(err, &away) || !strings.Contains(away.Reason, "no gateway has been connected") {
		t.Error(err)
	}
	for _, mayMake := range []bool{true, false} {
		if err := open(t, bus, mayMake).each(t.Context(), none); err != nil {
			t.Error(err)
		}
	}
}

// If the store is full, the error tells that another attempt may succeed.
func TestFullBucket(t *testing.T) {
	t.Parallel()
	b := open(t, connectWith(t, 16<<10)("_I"), true)
	var err error
	for i := range 100 {
		if _, err = b.put(t.Context(), fmt.Sprint("k", i), make([]byte, 1000), 0, 0); err != nil {
			break
		}
	}
	if _, away := errors.AsType[*Unavailable](err); !away {
		t.Error(err)
	}
}

// Of several gateways that take a session over, each gets another epoch.
func TestTakeOverAtTheSameTime(t *testing.T) {
	t.Parallel()
	bus := connect(t)
	sessions, err := NewSessions(bus("_A"))
	if err != nil {
		t.Fatal(err)
	}
	key := fleet.SessionKey("id")
	if _, err := sessions.Create(t.Context(), key, fleet.Session{Host: "box", Epoch: 1, Principal: "p", TTLMs: 1_800_000}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.Create(t.Context(), key, fleet.Session{Host: "thief", Epoch: 1, Principal: "p"}, time.Hour); !errors.Is(err, ErrConflict) {
		t.Error("a session is recorded twice:", err)
	}
	var mu sync.Mutex
	var epochs []uint64
	var all sync.WaitGroup
	for i := range 8 {
		s, err := NewSessions(bus(fmt.Sprint("_B", i)))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 10 {
				v, _, err := s.TakeOver(t.Context(), key, "p", double)
				if _, busy := errors.AsType[*Unavailable](err); busy {
					continue
				}
				if err != nil || v.Host != "box" {
					t.Error(v, err)
				}
				mu.Lock()
				epochs = append(epochs, v.Epoch)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(epochs)
	if len(epochs) == 0 || len(slices.Compact(slices.Clone(epochs))) != len(epochs) {
		t.Errorf("epochs were given twice: %v", epochs)
	}
	if _, _, err := sessions.TakeOver(t.Context(), key, "other", double); !errors.Is(err, ErrNoSession) {
		t.Error("another principal has got the session:", err)
	}
	if _, _, err := sessions.TakeOver(t.Context(), fleet.SessionKey("none"), "p", double); !errors.Is(err, ErrNoSession) {
		t.Error(err)
	}
}

// double is how long the records of these tests live.
func double(session time.Duration) time.Duration { return 2 * session }

// The record of a session that another gateway has taken over, or that has ended, is kept if the client is connected: the epoch does not
// get smaller, and the principal stays.
func TestKeep(t *testing.T) {
	t.Parallel()
	sessions, err := NewSessions(connect(t)("_A"))
	if err != nil {
		t.Fatal(err)
	}
	key, v := fleet.SessionKey("id"), fleet.Session{Host: "box", Epoch: 3, Principal: "p", TTLMs: 60_000}
	now, rev, err := sessions.Keep(t.Context(), key, v, time.Hour) // the record has ended
	if err != nil || now != v {
		t.Fatal(now, err)
	}
	if rev, err = sessions.Touch(t.Context(), key, v, rev, time.Hour); err != nil {
		t.Error(err)
	}
	taken, _, err := sessions.TakeOver(t.Context(), key, "p", double)
	if err != nil || taken.Epoch != 4 || taken.TTLMs != v.TTLMs {
		t.Fatal(taken, err)
	}
	if _, err := sessions.Touch(t.Context(), key, v, rev, time.Hour); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	if now, rev, err = sessions.Keep(t.Context(), key, v, time.Hour); err != nil || now != taken {
		t.Error(now, err)
	}
	if _, err := sessions.Touch(t.Context(), key, now, rev, time.Hour); err != nil {
		t.Error(err)
	}
	v.Principal = "other"
	if now, _, err = sessions.Keep(t.Context(), key, v, time.Hour); err == nil {
		t.Error("the record of another principal is replaced by", now)
	}
}

// runLeases writes leases until the test ends.
func runLeases(t *testing.T, bus *nats.Conn) {
	t.Helper()
	w, err := NewLeaseWriter(bus, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { // ends with ctx
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func describe(name string) fleet.Host {
	return fleet.Host{Name: name, Instance: fleet.NewID(), Process: fleet.NewID(), Version: "test", Capacity: 1}
}

// A name belongs to one executor until that gives it back.
func TestLease(t *testing.T) {
	t.Parallel()
	bus := connect(t)
	host := bus(fleet.HostInbox("box"))
	h, other := describe("box"), describe("box")
	if _, err := Claim(t.Context(), host, h); err == nil || !strings.Contains(err.Error(), "no gateway is connected") {
		t.Error(err)
	}
	runLeases(t, bus(fleet.GatewayInbox))
	awaitLease(t, host, h)
	lease, err := Claim(t.Context(), host, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Claim(t.Context(), host, other); !errors.Is(err, ErrNameTaken) {
		t.Error(err)
	}
	h.Process = fleet.NewID() // another process of the same instance
	if err := lease.Renew(t.Context(), h); err != nil {
		t.Error(err)
	}
	if err := lease.Release(t.Context(), h); err != nil {
		t.Error(err)
	}
	if _, err := Claim(t.Context(), host, other); err != nil {
		t.Error(err)
	}
	if err := lease.Renew(t.Context(), h); !errors.Is(err, ErrNameTaken) {
		t.Error(err)
	}
}

// While leases cannot be written, only an executor that has the name says that it is reachable: the beat of another one with the same name
// would end the links of the first one.
func TestBeatsNeedAName(t *testing.T) {
	t.Parallel()
	bus := connect(t)
	host, gateway := bus(fleet.HostInbox("box")), bus(fleet.GatewayInbox)
	var full atomic.Bool
	_, err := gateway.Subscribe(fleet.LeaseSubject("box"), func(m *nats.Msg) {
		answer := `{}`
		if full.Load() {
			answer = `{"error":"the disk is full"}`
		}
		if err := gateway.Publish(m.Reply, []byte(answer)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	beats, err := gateway.SubscribeSync(fleet.BeatSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	expect := func(when string, beat bool) {
		t.Helper()
		if err := errors.Join(host.FlushTimeout(patience), gateway.FlushTimeout(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := beats.NextMsg(time.Millisecond); (err == nil) != beat {
			t.Errorf("%s: %v", when, err)
		}
	}
	h := describe("box")
	lease, err := Claim(t.Context(), host, h)
	if err != nil {
		t.Fatal(err)
	}
	expect("an executor has got the name", true)
	full.Store(true)
	if err := lease.Renew(t.Context(), h); err == nil {
		t.Error("no error")
	}
	expect("it cannot renew its lease", true)
	if _, err := Claim(t.Context(), host, describe("box")); err == nil {
		t.Error("no error")
	}
	expect("another one does not get the name", false)
}

// awaitLease waits until a gateway writes leases.
func awaitLease(t *testing.T, host *nats.Conn, h fleet.Host) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		if _, err := Claim(t.Context(), host, h); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// untilAnswered asks the gateways again, as a host does, if none of them has answered in time.
func untilAnswered(ask func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := ask()
		if err == nil || !strings.HasPrefix(err.Error(), "no gateway answers") || time.Now().After(deadline) {
			return err
		}
	}
}

// A hostile host changes no other lease, and makes gateways publish nowhere but to its own inbox.
func TestHostileLeaseRequests(t *testing.T) {
	t.Parallel()
	bus := connect(t)
	host, watcher := bus(fleet.HostInbox("evil")), bus("_W")
	runLeases(t, bus(fleet.GatewayInbox))
	good := describe("evil")
	awaitLease(t, host, good)
	var subs []*nats.Subscription
	for what, row := range map[string]struct {
		reply string
		host  func(*fleet.Host)
	}{
		"reply to another inbox":    {fleet.HostInbox("victim") + ".a", nil},
		"reply to JetStream":        {"$JS.API.STREAM.DELETE.KV_tether-sessions", nil},
		"reply to a key":            {fleet.KeySubject(fleet.SessionsBucket, "k"), nil},
		"reply to its inbox itself": {fleet.HostInbox("evil"), nil},
		"name of another":           {"", func(h *fleet.Host) { h.Name = "victim" }},
		"instance with a wildcard":  {"", func(h *fleet.Host) { h.Instance = ">" }},
		"process with a dot":        {"", func(h *fleet.Host) { h.Process = "a.b" }},
		"no capacity":               {"", func(h *fleet.Host) { h.Capacity = 0 }},
		"version with a control":    {"", func(h *fleet.Host) { h.Version = "\x1b[2J" }},
		"too many labels":           {"", func(h *fleet.Host) { h.Labels = make([]string, fleet.MaxLabels+1) }},
		"too long":                  {"", func(h *fleet.Host) { h.Sandbox = strings.Repeat("x", maxLease) }},
	} {
		h := good
		if row.host != nil {
			row.host(&h)
		}
		text, err := json.Marshal(leaseRequest{Host: h})
		if err != nil {
			t.Fatal(err)
		}
		if row.reply == "" {
			m, err := host.Request(fleet.LeaseSubject("evil"), text, patience)
			var a leaseAnswer
			if err != nil || json.Unmarshal(m.Data, &a) != nil || a.Error == "" {
				t.Errorf("%s: %v %+v", what, err, a)
			}
			continue
		}
		sub, err := watcher.SubscribeSync(row.reply)
		if err == nil {
			err = watcher.Flush()
		}
		if err == nil {
			err = host.PublishRequest(fleet.LeaseSubject("evil"), row.reply, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	for range 10 { // whatever the gateway has to say to the requests above, it has said when it has answered these
		if err := (&Lease{host}).Renew(t.Context(), good); err != nil {
			t.Error(err)
		}
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, sub := range subs {
		if n, _, _ := sub.Pending(); n > 0 {
			t.Errorf("the gateway has published to %s", sub.Subject)
		}
	}
	if _, err := Claim(t.Context(), bus(fleet.HostInbox("victim")), describe("victim")); err != nil {
		t.Error("the name of another host was taken:", err)
	}
}

// FuzzBeat checks that no beat breaks the table.
func FuzzBeat(f *testing.F) {
	text, err := json.Marshal(fleet.Host{Name: "box", Instance: strings.Repeat("0", 32), Process: strings.Repeat("1", 32), Capacity: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(fleet.BeatSubject("box"), text, "")
	f.Add(fleet.KeySubject(fleet.DrainsBucket, "box"), []byte("drain"), "")
	f.Add(fleet.KeySubject(fleet.DrainsBucket, "box"), []byte(nil), "DEL")
	f.Fuzz(func(t *testing.T, subject string, data []byte, operation string) {
		hosts := table(describe("other"))
		hosts.log = discard
		m := &nats.Msg{Subject: subject, Data: data}
		if operation != "" {
			m.Header = nats.Header{deletion: {operation}}
		}
		hosts.receive(m)
		for _, h := range hosts.All() {
			if h.Name != "other" && fleet.BeatSubject(h.Name) != subject || h.Check(h.Name) != nil {
				t.Errorf("%q makes a host %+v", subject, h)
			}
		}
	})
}

// The record of a session that has ended is removed by its host and no other one, also if a gateway has just raised its epoch for a client that
// comes too late. A gateway that writes the record late does not bring it back.
func TestRemoveEndedSessions(t *testing.T) {
	t.Parallel()
	bus := connect(t)
	runLeases(t, bus(fleet.GatewayInbox))
	sessions, err := NewSessions(bus("_A"))
	if err != nil {
		t.Fatal(err)
	}
	box, thief := describe("box"), describe("thief")
	boxBus, thiefBus := bus(fleet.HostInbox("box")), bus(fleet.HostInbox("thief"))
	awaitLease(t, boxBus, box)
	key, v := fleet.SessionKey("id"), fleet.Session{Host: "box", Epoch: 7, Principal: "p"}
	rev, err := sessions.Create(t.Context(), key, v, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	remove := func(bus *nats.Conn, h fleet.Host) {
		t.Helper()
		ended := []string{fleet.SessionKey("unknown"), key}
		if err := untilAnswered(func() error { return RemoveEnded(t.Context(), bus, h, ended) }); err != nil {
			t.Error(err)
		}
	}
	remove(thiefBus, thief)
	if got, _, err := sessions.lookUp(t.Context(), key, "p", true); err != nil || got != v {
		t.Errorf("another host: %+v, %v", got, err)
	}
	if err := untilAnswered(func() error { return RemoveEnded(t.Context(), boxBus, box, []string{"*"}) }); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Error(err)
	}
	if err := untilAnswered(func() error { return RemoveEnded(t.Context(), boxBus, box, make([]string, MaxEnded+1)) }); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
	if _, _, err := sessions.TakeOver(t.Context(), key, "p", double); err != nil {
		t.Error(err)
	}
	remove(boxBus, box)
	if _, _, err := sessions.lookUp(t.Context(), key, "p", true); !errors.Is(err, ErrNoSession) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := sessions.Touch(t.Context(), key, v, rev, time.Hour); !errors.Is(err, ErrConflict) {
		t.Errorf("a late touch: %v", err)
	}
	if _, _, err := sessions.Keep(t.Context(), key, v, time.Hour); !errors.Is(err, ErrNoSession) {
		t.Errorf("a late gateway brings it back: %v", err)
	}
	remove(boxBus, box) // again
}
