package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/tetherexec/tether/wire"
)

// Limits and times of a client.
const (
	// maxCalls is how many calls may wait for their answers on a connection. One
	// more slot is reserved for calls that clean up.
	maxCalls = 1024

	defaultConnectTimeout    = 10 * time.Second
	defaultInitializeTimeout = 10 * time.Second
	defaultSilence           = 20 * time.Second
	defaultFollowUp          = 30 * time.Second

	// referenceTTL is how long a server without tether's additions keeps a detached session.
	referenceTTL = 30 * time.Second

	// parallelCatchUp is how many processes catch up at the same time.
	parallelCatchUp = 8

	// attachedPause is the longest pause while another connection has the session.
	attachedPause = 200 * time.Millisecond

	// attachedTimeout is for how long a new client asks for a session that another
	// connection has.
	attachedTimeout = 2 * time.Second

	// localPause is the longest pause before one of the first localBurst attempts to
	// connect again to a server on this machine: most outages there are short.
	localPause = 25 * time.Millisecond
	localBurst = 10

	// localSteadyPause is the pause before each later attempt on this machine. Jitter
	// makes it 255 ms at least: an outage that lasts costs at most 4 attempts per second.
	localSteadyPause = 340 * time.Millisecond

	// maxStates is how many changes of the state may wait for OnState; above it the oldest
	// are dropped.
	maxStates = 16

	// maxPolicyRequests is how many questions of the server about the network are
	// answered at the same time.
	maxPolicyRequests = 256
)

// timeouts are limits that tests make shorter.
type timeouts struct {
	// followUp is how long the answer to a follow-up may take while little else comes.
	followUp time.Duration

	// missing is how long an event may be missing before the server is asked for it.
	missing time.Duration

	// unread is how long Wait waits for a reader that does not read on.
	unread time.Duration
}

var defaultTimeouts = timeouts{followUp: 5 * time.Second, missing: time.Second, unread: 10 * time.Second}

// backOff are the pauses between attempts to connect again; the last one stays.
var backOff = []time.Duration{
	0, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
	400 * time.Millisecond, 800 * time.Millisecond, time.Second,
}

// jitter is how far a pause may be from its length, as a fraction.
const jitter = 0.25

// Options change what a client does. The zero value is fine.
type Options struct {
	// Name is the name of this client, for the server.
	Name string

	// Token is sent as a bearer token to servers that ask for one.
	Token string

	// TLS is used for wss:// addresses.
	TLS *tls.Config

	// Connect, if set, makes the connections of [Dial] instead of dialling the host or
	// the socket of the address. Otherwise hosts are reached through the proxies that
	// HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name, except for this machine.
	Connect func(context.Context) (net.Conn, error)

	// TTL asks the server to keep the session this long without a connection. The
	// client tries to reconnect for as long as the server has granted. Servers that
	// cannot be asked keep the session for 30 s.
	TTL time.Duration

	// Label names the session in lists, on servers that know labels.
	Label string

	// RecoveryTimeout bounds the attempts to resume the session after a lost connection. If
	// it is zero, it is derived from how long the server keeps the session.
	RecoveryTimeout time.Duration

	// Wait is how long the client tries again to open the session if the server cannot be
	// reached, for example because it is still starting. Zero: the client tries once.
	// If the server refuses this client, or its certificate is not trusted, the client does
	// not try again. When Wait is over, the error is the error of the last attempt.
	Wait time.Duration

	// ConnectTimeout and InitializeTimeout bound one attempt; 10 s if zero.
	ConnectTimeout    time.Duration
	InitializeTimeout time.Duration

	// Silence is the time without a byte from the server after which a connection counts
	// as lost; 20 s if zero. The server is asked for a sign of life twice as often.
	Silence time.Duration

	// FollowUp is how long a request may be unanswered before the client sends a follow-up:
	// a question that the server answers at once. It is repeated after each such time; 30 s
	// if zero. If the follow-up is not answered within 5 s, or within FollowUp if that is
	// shorter, the connection is replaced, even if output still arrives: requests do not
	// reach the server. An answer that waits behind output on a slow link may take longer. A
	// request that takes long, such as a long poll, is not a reason to replace the connection.
	FollowUp time.Duration

	// Resume takes over this session instead of opening one.
	Resume string

	// OnState, if set, is called with each change of the state, in order and one call
	// at a time. The first call is Connected, unless Wait is set: then calls with Connecting
	// may come before it, one for each failed attempt that is followed by another one; if no
	// session can be opened, they are the only calls. The last call is Failed: it comes exactly
	// once, after [Client.Status] has changed and before Close returns. Calls and processes
	// of the client fail at about that time, before or after it. If a call of OnState takes
	// so long that more than 16 changes wait, the oldest of those are dropped, but never
	// Failed. OnState must not wait and must not call the client.
	OnState func(Status)

	// NetworkPolicy, if set, decides about connections of confined processes that
	// the server asks about. Without it they are denied.
	NetworkPolicy func(ctx context.Context, processID string, q NetworkQuestion) NetworkDecision

	// OnNetworkDecision, if set, is called with each decision of the server about a host
	// that a process wanted to reach, see [Network], in order. Decisions that are made while
	// there is no connection are not reported. If the function is too slow, the oldest
	// decisions that wait are dropped. It must not close the client.
	OnNetworkDecision func(wire.NetworkDecision)

	// Log gets messages about the connection; nil discards them.
	Log *slog.Logger

	timeouts timeouts
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "tether-client"
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = defaultConnectTimeout
	}
	if o.InitializeTimeout <= 0 {
		o.InitializeTimeout = defaultInitializeTimeout
	}
	if o.Silence <= 0 {
		o.Silence = defaultSilence
	}
	if o.FollowUp <= 0 {
		o.FollowUp = defaultFollowUp
	}
	if o.timeouts == (timeouts{}) {
		o.timeouts = defaultTimeouts
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// followUpTime is how long the answer to a follow-up may take while little else comes.
func (o *Options) followUpTime() time.Duration {
	return min(o.timeouts.followUp, max(o.FollowUp, o.timeouts.followUp/5))
}

// A State says whether a client has a connection, and a session.
type State uint8

// The states of a client.
const (
	Connected  State = iota + 1
	Recovering       // the connection is lost, calls wait
	Failed           // the session is lost
	Connecting       // there is no session yet
)

func (s State) String() string {
	return [...]string{"unknown", "connected", "recovering", "failed", "connecting"}[s]
}

// A Status is a state and what led to it.
type Status struct {
	State      State
	Connection int   // connections so far, this one included
	Attempt    int   // while connecting or recovering: attempts that have failed
	Err        error // why the last connection or attempt ended; nil if it did not
}

// Reason is the text of Err without "the connection was lost", for messages that say so
// themselves. It is empty if nothing more is known. It may contain text of the server.
func (s Status) Reason() string {
	err := s.Err
	if lost, ok := isLost(err); ok {
		err = lost.cause
	}
	if err == nil {
		return ""
	}
	return connectionText(err)
}
