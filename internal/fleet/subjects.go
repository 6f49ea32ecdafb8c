package fleet

import "strings"

// Streams of the directory. Each is a key-value bucket of NATS: the subject of a key is $KV.BUCKET.KEY.
const (
	HostsBucket    = "tether-hosts"    // leases: one key per host; and see LastPrefix
	SessionsBucket = "tether-sessions" // one key per session, see SessionKey
	DrainsBucket   = "tether-drains"   // hosts that an operator drains: one key per host
)

// LastPrefix and the name of a host are the key of what gateways have heard last of a host that is not reachable. No host can have such a name.
const LastPrefix = "last_"

// KeySubject is the subject to which the value of a key is published.
func KeySubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// Stream is the name of the stream that a bucket is.
func Stream(bucket string) string { return "KV_" + bucket }

// GetSubject is the subject of requests for the last value of a key.
func GetSubject(bucket, key string) string {
	return "$JS.API.DIRECT.GET." + Stream(bucket) + "." + KeySubject(bucket, key)
}

const (
	hostPrefix    = "tether.host."
	gatewayPrefix = "tether.gateway."
	beatPrefix    = "tether.beat."
	leasePrefix   = "tether.lease."
)

// A LinkSubject has the parts of the subject of frames of one link in one direction. It names the process of the host, so that
// no other one with the same name gets them. NATS lets a host publish only below its own name.
type LinkSubject struct {
	Host, Process, Gateway, Link string
	Up                           bool // from the gateway to the host
}

func (s LinkSubject) String() string {
	direction := down
	if s.Up {
		direction = up
	}
	return hostPrefix + s.Host + "." + s.Process + direction + s.Gateway + "." + s.Link
}

// Back is the subject of the frames in the other direction.
func (s LinkSubject) Back() LinkSubject {
	s.Up = !s.Up
	return s
}

// The parts of the subject between the process of a host and the id of a gateway.
const (
	up   = ".up."
	down = ".down."
)

// UpSubjects are the frames from all gateways to one process of a host.
func UpSubjects(host, process string) string {
	return LinkSubject{host, process, "*", "*", true}.String()
}

// DownSubjects are the frames from all hosts to one gateway.
func DownSubjects(gateway string) string { return LinkSubject{"*", "*", gateway, "*", false}.String() }

// ParseLink returns the parts of a subject of frames.
func ParseLink(subject string) (s LinkSubject, ok bool) {
	parts := strings.SplitN(subject, ".", 8) // one more than there are, so that a longer subject is noticed
	if len(parts) != 7 || parts[0]+"."+parts[1]+"." != hostPrefix {
		return s, false
	}
	direction := "." + parts[4] + "."
	return LinkSubject{parts[2], parts[3], parts[5], parts[6], direction == up}, direction == up || direction == down
}

// AnswerGone is the answer of a gateway to a host about a link that has ended. All other answers mean that the gateway is alive.
const AnswerGone = "gone"

// AliveSubject is where a gateway answers hosts that it is alive. A host may ask about one link, by the subject of its frames to the
// gateway.
func AliveSubject(gateway string) string { return gatewayPrefix + gateway + ".alive" }

// BeatSubject is where a host says every few seconds that it is reachable, with its description.
func BeatSubject(host string) string { return beatPrefix + host }

// BeatSubjects are those of all hosts.
const BeatSubjects = beatPrefix + "*"

// BeatHost returns the host of a BeatSubject. NATS lets a host publish only its own.
func BeatHost(subject string) string { return strings.TrimPrefix(subject, beatPrefix) }

// LeaseSubject is where a host asks gateways to write its lease.
func LeaseSubject(host string) string { return leasePrefix + host }

// LeaseSubjects are those of all hosts.
const LeaseSubjects = leasePrefix + "*"

// LeaseQueue is the queue group of LeaseSubjects: one gateway gets each request.
const LeaseQueue = "gateways"

// LeaseHost returns the host of a LeaseSubject. NATS lets a host publish only its own.
func LeaseHost(subject string) string { return strings.TrimPrefix(subject, leasePrefix) }

// HostInbox begins the subjects of answers to a host.
func HostInbox(host string) string { return hostPrefix + host + ".inbox" }

// IsHostInbox reports whether a subject is below the inbox of some host.
func IsHostInbox(subject string) bool {
	parts := strings.SplitN(subject, ".", 5)
	return len(parts) == 5 && parts[0]+"."+parts[1]+"." == hostPrefix && parts[3] == "inbox"
}

// GatewayInbox begins the subjects of answers to gateways and operators.
const GatewayInbox = "tether.inbox"
