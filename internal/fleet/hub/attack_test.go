package hub

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tetherexec/tether/internal/fleet"
)

// A host names subjects of others where an answer, a trace or a copy of a message would go. Nothing arrives there.
func TestHostCannotRedirect(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	gateway := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"))
	js := buckets(t, gateway)
	host := connect(t, h, credentials(t, h.Keys(), RoleHost, self), nats.CustomInboxPrefix(fleet.HostInbox(self)))
	watch := witness(t, h)
	victims := []string{
		fleet.LinkSubject{Host: "beta", Process: process, Gateway: gate, Link: "l1", Up: true}.String(), fleet.LinkSubject{Host: "beta", Process: process, Gateway: gate, Link: "l1"}.String(),
		fleet.BeatSubject("beta"), fleet.HostInbox("beta") + ".x", fleet.GatewayInbox + ".x", fleet.KeySubject(fleet.HostsBucket, "beta"), fleet.KeySubject(fleet.DrainsBucket, "beta"),
		"$JS.API.STREAM.DELETE." + fleet.Stream(fleet.HostsBucket), "$JS.API.STREAM.PURGE." + fleet.Stream(fleet.HostsBucket), "$SYS.REQ.SERVER.PING",
	}
	var seen []*nats.Subscription
	for _, victim := range victims {
		sub, err := watch.SubscribeSync(victim)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, sub)
	}
	flush(t, watch)
	own := []string{
		fleet.LinkSubject{Host: self, Process: process, Gateway: gate, Link: "l1"}.String(), fleet.BeatSubject(self), fleet.LeaseSubject(self), fleet.AliveSubject(gate),
		// refused ones: not even their answers may go anywhere
		fleet.KeySubject(fleet.HostsBucket, self), "$JS.API.INFO", "$JS.API.STREAM.INFO." + fleet.Stream(fleet.HostsBucket), fleet.GetSubject(fleet.HostsBucket, self), "$SYS.REQ.USER.INFO",
	}
	for _, subject := range own {
		for _, victim := range victims {
			for _, header := range []nats.Header{
				nil,
				{"Nats-Trace-Dest": {victim}},
				{"Nats-Trace-Dest": {victim}, "Nats-Trace-Only": {"true"}},
				{"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
				{"Nats-Rollup": {"all"}, "Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {victim}, "Nats-Subject": {victim}, "Nats-Request-Info": {"{}"}},
			} {
				if err := host.PublishMsg(&nats.Msg{Subject: subject, Reply: victim, Header: header, Data: []byte("{}")}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// A trace that is allowed arrives after all that are not.
	trace, err := watch.SubscribeSync(fleet.LeaseSubject(self))
	if err != nil {
		t.Fatal(err)
	}
	flush(t, host)
	flush(t, watch)
	if err := host.PublishMsg(&nats.Msg{Subject: fleet.BeatSubject(self), Header: nats.Header{"Nats-Trace-Dest": {fleet.LeaseSubject(self)}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := trace.NextMsg(testTime); err != nil {
		t.Fatal(err)
	}
	flush(t, watch)
	for _, sub := range seen {
		noMessage(t, sub)
	}
	for _, bucket := range []string{fleet.HostsBucket, fleet.DrainsBucket} {
		s, err := js.Stream(t.Context(), fleet.Stream(bucket))
		if err != nil || s.CachedInfo().State.Msgs != 0 {
			t.Errorf("%s: %v", bucket, err)
		}
	}
}

// If two hosts subscribe with a queue group of gateways or of the other host, neither takes messages away from the other.
func TestHostCannotStealByQueue(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	gateway := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"))
	alpha := connect(t, h, credentials(t, h.Keys(), RoleHost, self))
	beta := connect(t, h, credentials(t, h.Keys(), RoleHost, "beta"))
	subject := fleet.LinkSubject{Host: self, Process: process, Gateway: gate, Link: "l1", Up: true}.String()
	mine, err := alpha.QueueSubscribeSync(fleet.UpSubjects(self, process), "q")
	if err != nil {
		t.Fatal(err)
	}
	var stolen []*nats.Subscription
	for _, s := range []string{subject, fleet.UpSubjects(self, process), "tether.host.*.p1.up.*.*", ">"} {
		sub, err := beta.QueueSubscribeSync(s, "q")
		if err != nil {
			t.Fatal(err)
		}
		stolen = append(stolen, sub)
	}
	flush(t, alpha)
	flush(t, beta)
	const messages = 50
	for range messages {
		if err := gateway.Publish(subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, gateway)
	flush(t, alpha)
	flush(t, beta)
	if n, _, err := mine.Pending(); err != nil || n != messages {
		t.Errorf("the host has got %d messages: %v", n, err)
	}
	for _, sub := range stolen {
		noMessage(t, sub)
	}
}

// A host may have a few subscriptions, not so many that the hub runs out of memory.
func TestHostSubscriptionsAreLimited(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	host := connect(t, h, credentials(t, h.Keys(), RoleHost, self))
	for range 2 * hostSubscriptions {
		if _, err := host.SubscribeSync(fleet.UpSubjects(self, process)); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, host)
	if err := host.LastError(); !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
		t.Error(err)
	}
}

// A gateway does with the real library what it needs, and cannot change or delete what is there. Neither can an operator.
func TestDirectoryAccess(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	gateway := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"), nats.Timeout(testTime))
	operator := connect(t, h, credentials(t, h.Keys(), RoleOperator, "ops"))
	js := buckets(t, gateway)
	buckets(t, gateway) // another gateway does the same
	wrong := streamConfig(fleet.HostsBucket)
	wrong.RePublish = &jetstream.RePublish{Source: ">", Destination: "tether.>"}
	if _, err := js.CreateStream(t.Context(), wrong); err == nil {
		t.Error("a gateway has changed a stream by making it again")
	}
	key := fleet.KeySubject(fleet.HostsBucket, self)
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: key, Data: []byte("1"), Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}, "Nats-TTL": {"1h"}}})
	if err != nil || ack.Sequence != 1 {
		t.Fatal(ack, err)
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: key, Data: []byte("2"), Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}}}); err == nil {
		t.Error("an old revision is accepted")
	}
	ojs, err := jetstream.New(operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, reader := range []jetstream.JetStream{js, ojs} {
		s, err := reader.Stream(t.Context(), fleet.Stream(fleet.HostsBucket))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := s.GetLastMsgForSubject(t.Context(), key); err != nil || string(m.Data) != "1" {
			t.Error(m, err)
		}
	}
	batch := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"))
	m, err := batch.Request("$JS.API.DIRECT.GET."+fleet.Stream(fleet.HostsBucket), []byte(`{"multi_last":["`+fleet.KeySubject(fleet.HostsBucket, "*")+`"],"batch":100}`), testTime)
	if err != nil || string(m.Data) != "1" {
		t.Error(m, err)
	}
}
