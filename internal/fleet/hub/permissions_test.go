package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
)

// The names in the table. The other hosts have names that a wrong prefix could let pass.
const (
	self    = "alpha"
	gate    = "0123456789abcdef"
	process = "p1"
)

var others = []string{"beta", "alph", "alphab", "alpha-2"}

// A probe is an operation with a subject, and the roles that may do it. All others may not.
type probe struct {
	subscribe bool
	subject   string
	queue     string
	roles     []Role
}

func (p probe) String() string {
	if p.subscribe {
		return fmt.Sprintf("subscribe %s %s", p.subject, p.queue)
	}
	return "publish " + p.subject
}

// allowed reports whether the hub lets the client do it.
func (p probe) allowed(t *testing.T, conn *nats.Conn) bool {
	t.Helper()
	if !p.subscribe {
		if err := conn.Publish(p.subject, []byte("x")); err != nil {
			t.Fatal(p, err)
		}
		return !refused(t, conn, "publish to", p.subject)
	}
	sub, err := conn.QueueSubscribeSync(p.subject, p.queue)
	if err != nil {
		t.Fatal(p, err)
	}
	no := refused(t, conn, "subscription to", p.subject)
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(p, err)
	}
	return !no
}

// probes are the whole table. host is self.
func probes() (list []probe) {
	publish := func(subject string, roles ...Role) { list = append(list, probe{subject: subject, roles: roles}) }
	subscribe := func(subject string, roles ...Role) {
		list = append(list, probe{subscribe: true, subject: subject, roles: roles}, probe{subscribe: true, subject: subject, queue: fleet.LeaseQueue, roles: roles})
	}
	linkProbes(publish, subscribe)
	directoryProbes(publish, subscribe)
	for _, subject := range []string{
		"anything", "tether", "tether.host", "tether.host." + self, "tether.host." + self + ".inbox", "tether.gateway." + gate, "tether.gateway." + gate + ".alive.x",
		"tether.beat." + self + ".x", "tether.lease." + self + ".x", "_INBOX.x", "_R_.x", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ",
		"$SYS.ACCOUNT.x.CLAIMS.UPDATE", "$JS.ACK.KV_tether-hosts.c.1.1.1.1.1", "$JS.FC.x", "$JS.EVENT.ADVISORY.x", "$MQTT.x", "$G.x",
	} {
		publish(subject)
	}
	for _, subject := range []string{
		">", "*", "*.>", "*.*", "tether.>", "tether.*.>", "tether.*", "$SYS.>", "$JS.>", "$JS.API.>", "$KV.>", "$KV.*.>", "_INBOX.>", "$JS.EVENT.>", "$JS.*.>", "$*.>",
	} {
		subscribe(subject)
	}
	return list
}

// linkProbes are those of links, beats and inboxes.
func linkProbes(publish, subscribe func(string, ...Role)) {
	link := func(host string, up bool) string {
		return fleet.LinkSubject{Host: host, Process: process, Gateway: gate, Link: "l1", Up: up}.String()
	}
	publish(link(self, false), RoleHost)
	publish(fleet.BeatSubject(self), RoleHost)
	publish(fleet.LeaseSubject(self), RoleHost)
	publish(fleet.AliveSubject(gate), RoleHost)
	publish(link(self, true), RoleGateway)
	publish(fleet.HostInbox(self)+".x", RoleGateway)
	publish(fleet.HostInbox(self)+".x.y", RoleGateway)
	publish(fleet.GatewayInbox)
	publish(fleet.GatewayInbox + ".x.y")
	subscribe("tether.host."+self+".>", RoleHost)
	subscribe("tether.host."+self+".*.*", RoleHost)
	subscribe(fleet.UpSubjects(self, process), RoleHost)
	subscribe(fleet.HostInbox(self)+".>", RoleHost)
	subscribe(fleet.HostInbox(self)+".x.*", RoleHost)
	subscribe(fleet.UpSubjects(self, "*"), RoleHost)
	for _, other := range others {
		publish(link(other, false))
		publish(fleet.BeatSubject(other))
		publish(fleet.LeaseSubject(other))
		publish(link(other, true), RoleGateway)
		publish(fleet.HostInbox(other)+".x", RoleGateway)
		subscribe("tether.host." + other + ".>")
		subscribe(fleet.UpSubjects(other, process))
		subscribe(fleet.HostInbox(other) + ".>")
		subscribe(fleet.BeatSubject(other), RoleGateway, RoleOperator)
		subscribe(fleet.LeaseSubject(other), RoleGateway)
	}
	subscribe(fleet.BeatSubject(self), RoleGateway, RoleOperator)
	subscribe(fleet.UpSubjects("*", "*"))
	subscribe("tether.host.>")
	subscribe("tether.host.*")
	subscribe("tether.host.*.>")
	subscribe("tether.host.*.inbox.>")
	subscribe("tether.host.*.*.>")
	subscribe("tether.host.*.*.*.*.*")
	subscribe("tether.gateway.>")
	// Where a wildcard for one part is allowed, NATS allows the one for several parts, too. Nothing is published deeper.
	subscribe("tether.beat.>", RoleGateway, RoleOperator)
	subscribe("tether.lease.>", RoleGateway)
	subscribe(fleet.DownSubjects(gate), RoleGateway)
	subscribe(fleet.AliveSubject(gate), RoleGateway)
	subscribe(fleet.BeatSubjects, RoleGateway, RoleOperator)
	subscribe(fleet.LeaseSubjects, RoleGateway)
	subscribe(fleet.GatewayInbox+".>", RoleGateway, RoleOperator)
	subscribe(fleet.GatewayInbox+".x.*", RoleGateway, RoleOperator)
	subscribe("tether.inbox")
}

// directoryProbes are those of JetStream.
func directoryProbes(publish, subscribe func(string, ...Role)) {
	readers := map[string][]Role{
		fleet.HostsBucket: {RoleGateway, RoleOperator}, fleet.SessionsBucket: {RoleGateway}, fleet.DrainsBucket: {RoleGateway, RoleOperator}, "other": nil,
	}
	writers := map[string][]Role{fleet.HostsBucket: {RoleGateway}, fleet.SessionsBucket: {RoleGateway}, fleet.DrainsBucket: {RoleOperator}, "other": nil}
	watchers := map[string][]Role{fleet.DrainsBucket: {RoleGateway, RoleOperator}}
	for bucket := range readers {
		stream := fleet.Stream(bucket)
		publish(fleet.KeySubject(bucket, self), writers[bucket]...)
		publish(fleet.KeySubject(bucket, self) + ".x")
		subscribe(fleet.KeySubject(bucket, self), watchers[bucket]...)
		subscribe(fleet.KeySubject(bucket, "*"), watchers[bucket]...)
		subscribe(fleet.KeySubject(bucket, ">"), watchers[bucket]...)
		publish("$JS.API.STREAM.INFO."+stream, readers[bucket]...)
		publish("$JS.API.DIRECT.GET."+stream, readers[bucket]...)
		publish(fleet.GetSubject(bucket, self), readers[bucket]...)
		publish("$JS.API.STREAM.MSG.GET."+stream, readers[bucket]...)
		if bucket == "other" {
			publish("$JS.API.STREAM.CREATE." + stream)
		} else {
			publish("$JS.API.STREAM.CREATE."+stream, RoleGateway)
		}
		for _, request := range []string{
			"STREAM.UPDATE.", "STREAM.DELETE.", "STREAM.PURGE.", "STREAM.MSG.DELETE.", "STREAM.SNAPSHOT.", "STREAM.RESTORE.", "STREAM.LEADER.STEPDOWN.", "STREAM.PEER.REMOVE.",
			"CONSUMER.CREATE.", "CONSUMER.LIST.", "CONSUMER.NAMES.",
		} {
			publish("$JS.API." + request + stream)
		}
		for _, request := range []string{"CONSUMER.CREATE.%s.c", "CONSUMER.CREATE.%s.c.>", "CONSUMER.DURABLE.CREATE.%s.c", "CONSUMER.DELETE.%s.c", "CONSUMER.INFO.%s.c", "CONSUMER.MSG.NEXT.%s.c", "CONSUMER.PAUSE.%s.c"} {
			publish("$JS.API." + strings.ReplaceAll(fmt.Sprintf(request, stream), ">", "x"))
		}
	}
	publish("$JS.API.INFO", RoleGateway, RoleOperator)
	for _, request := range []string{"STREAM.NAMES", "STREAM.LIST", "META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.x", "ACCOUNT.STREAM.MOVE.x.y", "STREAM.TEMPLATE.CREATE.x"} {
		publish("$JS.API." + request)
	}
}

// name is the name of the client with a role in these tests.
func (r Role) name() string {
	return map[Role]string{RoleHost: self, RoleGateway: "gate", RoleOperator: "ops"}[r]
}

var roles = []Role{RoleHost, RoleGateway, RoleOperator}

// Each role may do what the table says, and nothing else of it. What is published arrives only if it is allowed.
func TestPermissions(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	watch := witness(t, h)
	for _, role := range roles {
		conn := connect(t, h, credentials(t, h.Keys(), role, role.name()))
		for _, p := range probes() {
			var seen *nats.Subscription
			var err error
			if !p.subscribe {
				if seen, err = watch.SubscribeSync(p.subject); err != nil {
					t.Fatal(err)
				}
				flush(t, watch)
			}
			want := slices.Contains(p.roles, role)
			if got := p.allowed(t, conn); got != want {
				t.Errorf("%v, as %v: allowed %v", p, role, got)
			}
			if p.subscribe {
				continue
			}
			flush(t, watch)
			if n, _, err := seen.Pending(); err != nil || (n > 0) != want {
				t.Errorf("%v, as %v: %d messages have arrived, %v", p, role, n, err)
			}
			if err := seen.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// If any permission is removed, something that the role needs is refused.
func TestEachPermissionIsNeeded(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	for _, role := range roles {
		all := role.permissions(role.name())
		for i, removed := range slices.Concat(all.Publish, all.Subscribe) {
			p := fleet.Permissions{Publish: slices.Clone(all.Publish), Subscribe: slices.Clone(all.Subscribe)}
			if i < len(all.Publish) {
				p.Publish = slices.Delete(p.Publish, i, i+1)
			} else {
				p.Subscribe = slices.Delete(p.Subscribe, i-len(all.Publish), i-len(all.Publish)+1)
			}
			conn := connect(t, h, custom(t, h.Keys(), role, p, nil))
			if !slices.ContainsFunc(probes(), func(p probe) bool { return slices.Contains(p.roles, role) && !p.allowed(t, conn) }) {
				t.Errorf("%v does not need %s", role, removed)
			}
			conn.Close()
		}
	}
}

// A client without any permission may do nothing: an empty list does not mean that everything is allowed.
func TestNoPermissions(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	conn := connect(t, h, custom(t, h.Keys(), RoleHost, fleet.Permissions{}, nil))
	for _, p := range probes() {
		if p.allowed(t, conn) {
			t.Errorf("%v is allowed", p)
		}
	}
}
