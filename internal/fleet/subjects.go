package fleet

import "strings"

// Streams of the directory. Each is a key-value bucket of NATS: the subject of a key is $KV.BUCKET.KEY.
const (
	HostsBucket    = "tether-hosts"    // leases: one key per host
	SessionsBucket = "tether-sessions" // one key per session, see SessionKey
	DrainsBucket   = "tether-drains"   // hosts that an operator drains: one key per host
)

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
)

// A LinkSubject has the parts of the subject of frames of one link in one direction. It names the instance of the host, so that
// another executor with the same name never gets them. NATS lets a host publish only below its own name.
type LinkSubject struct {
	Host, Instance, Gateway, Link string
	Up                            bool // from the gateway to the host
}

func (s LinkSubject) String() string {
	direction := down
	if s.Up {
		direction = up
	}
	return hostPrefix + s.Host + "." + s.Instance + direction + s.Gateway + "." + s.Link
}

// Back is the subject of the frames in the other direction.
func (s LinkSubject) Back() LinkSubject {
	s.Up = !s.Up
	return s
}

// The parts of the subject between the instance of a host and the id of a gateway.
const (
	up   = ".up."
	down = ".down."
)

// UpSubjects are the frames from all gateways to one instance of a host.
func UpSubjects(host, instance string) string {
	return LinkSubject{host, instance, "*", "*", true}.String()
}

// DownSubjects are the frames from all hosts to one gateway.
func DownSubjects(gateway string) string { return LinkSubject{"*", "*", gateway, "*", false}.String() }

// ParseLink returns the parts of a subject of frames.
func ParseLink(subject string) (s LinkSubject, ok bool) {
	parts := strings.Split(subject, ".")
	if len(parts) != 7 || parts[0]+"."+parts[1]+"." != hostPrefix {
		return s, false
	}
	direction := "." + parts[4] + "."
	return LinkSubject{parts[2], parts[3], parts[5], parts[6], direction == up}, direction == up || direction == down
}

// AliveSubject is where a gateway answers hosts that it is alive.
func AliveSubject(gateway string) string { return gatewayPrefix + gateway + ".alive" }

// BeatSubject is where a host says every few seconds that it is reachable, with its description.
func BeatSubject(host string) string { return beatPrefix + host }

// BeatSubjects are those of all hosts.
const BeatSubjects = beatPrefix + "*"

// HostInbox begins the subjects of answers to a host.
func HostInbox(host string) string { return hostPrefix + host + ".inbox" }

// GatewayInbox begins the subjects of answers to gateways and operators.
const GatewayInbox = "tether.inbox"
