package client

import "time"

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
