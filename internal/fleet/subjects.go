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

// UpSubject has the frames of a link from a gateway to a host.
func UpSubject(host, gateway, link string) string {
	return hostPrefix + host + up + gateway + "." + link
}

// UpSubjects are the frames from all gateways to one host.
func UpSubjects(host string) string { return hostPrefix + host + up + "*.*" }

// DownSubject has the frames of a link from a host to a gateway. NATS lets a host publish only below its own name.
func DownSubject(host, gateway, link string) string {
	return hostPrefix + host + down + gateway + "." + link
}

// DownSubjects are the frames from all hosts to one gateway.
func DownSubjects(gateway string) string { return hostPrefix + "*" + down + gateway + ".*" }

// The parts of a subject between the name of a host and the id of a gateway.
const (
	up   = ".up."
	down = ".down."
)

// A LinkSubject is an UpSubject or a DownSubject in its parts.
type LinkSubject struct {
	Host, Gateway, Link string
	Up                  bool
}

// ParseLink returns the parts of a subject of frames.
func ParseLink(subject string) (s LinkSubject, ok bool) {
	parts := strings.Split(subject, ".")
	if len(parts) != 6 || parts[0]+"."+parts[1]+"." != hostPrefix {
		return s, false
	}
	direction := "." + parts[3] + "."
	return LinkSubject{Host: parts[2], Gateway: parts[4], Link: parts[5], Up: direction == up}, direction == up || direction == down
}

// Back is the subject of the frames in the other direction.
func (s LinkSubject) Back() string {
	if s.Up {
		return DownSubject(s.Host, s.Gateway, s.Link)
	}
	return UpSubject(s.Host, s.Gateway, s.Link)
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
