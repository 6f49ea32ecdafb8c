package client

import (
	"context"
	"net"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
)

// WithShortTimeouts returns options whose internal timeouts are a tenth of the usual ones.
func WithShortTimeouts(o Options) Options {
	o.timeouts = defaultTimeouts
	if o.FollowUp == 0 {
		o.FollowUp = defaultFollowUp / 10
	}
	for _, d := range []*time.Duration{&o.timeouts.followUp, &o.timeouts.missing, &o.timeouts.unread} {
		*d /= 10
	}
	return o
}

// DialLines opens a session over connections on which each message is a line, as on those of a transport command.
func DialLines(ctx context.Context, connect func(context.Context) (net.Conn, error), o Options) (*Client, error) {
	return open(ctx, linesDialer(connect), o)
}

type linesDialer func(context.Context) (net.Conn, error)

func (d linesDialer) String() string { return "lines" }

func (d linesDialer) local() bool { return false }

func (d linesDialer) dial(ctx context.Context) (rpc.Stream, error) {
	conn, err := d(ctx)
	if err != nil {
		return nil, err
	}
	return unlimitedStream{rpc.NewLines(conn, conn)}, nil
}
