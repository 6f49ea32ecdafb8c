package client

import "time"

// Impatient returns options with which everything that takes seconds takes a tenth.
func Impatient(o Options) Options {
	o.tempo = usualTempo
	if o.FollowUp == 0 {
		o.FollowUp = defaultFollowUp / 10
	}
	for _, d := range []*time.Duration{&o.tempo.look, &o.tempo.hole, &o.tempo.unread} {
		*d /= 10
	}
	return o
}
