package client

import "time"

// Impatient returns options with which everything that takes seconds takes a tenth.
func Impatient(o Options) Options {
	o.tempo = usualTempo
	for _, d := range []*time.Duration{&o.tempo.question, &o.tempo.look, &o.tempo.hole, &o.tempo.unread} {
		*d /= 10
	}
	return o
}
