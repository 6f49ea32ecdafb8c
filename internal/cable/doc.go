// Package cable is a proxy between any client and any server of this protocol. On
// demand, and exactly where a test wants them, it causes the faults of networks and
// of broken peers.
//
//	c, err := cable.Lay(ctx, cable.Config{Target: server.URL})
//	…
//	defer c.Close()
//	client.Dial(c.URL())
//
//	c.Cut()                      // both ends lose their connections; new ones are refused
//	c.Mend()                     // new connections pass again
//	c.Freeze(cable.FromServer)   // open, but silent in one direction
//
//	// The second output is lost, everything else arrives.
//	r := c.On(cable.FromServer, cable.Method("process/output").Nth(2), cable.Drop)
//	r.Await(ctx, 1)
//
//	// The server has accepted the write; its answer never arrives.
//	c.On(cable.FromServer, cable.Answer("process/write"), cable.SeverBefore)
//
// There are three kinds of faults. Faults of the cable affect every connection: Cut,
// Sever, Reset, Refuse, Freeze, HalfClose, Strand, SetLatency, SetRate. Faults of
// an upgrade are given to OnUpgrade: a status, or no answer at all. Faults of a
// message are rules: a direction, a Match and the actions. A rule acts once
// unless its Match says Times or Always. A rule without actions only counts.
// A test never has to sleep: Rule.Await waits until a rule has acted.
//
// Messages that no fault affects are forwarded as they were sent: fragments stay
// fragments, pings and close frames pass, and so do bytes that are not WebSocket
// frames. Only the opening request is changed: it names the target's host, and offers
// no extension, because a compressed message could not be read.
//
// Where a change belongs: cable.go has the cable and its faults; conditions.go freezing, latency and rate; link.go one connection,
// line.go one direction of it, frame.go its frames; message.go, match.go, action.go and
// rule.go the rules; upgrade.go the opening request; schedule.go faults at regular times;
// endpoint.go addresses; event.go and log.go events, counters and traces.
//
// # Recipes
//
// The connection faults of docs/scenarios.md, by the calls that cause them:
//
//	F01 F20        Sever, or SeverAfter on the message of interest (OnLink(2) for the second loss)
//	F02–F06 F16    Cut … Mend; Aim at the new server in between for a restart
//	F07 F08        Strand(AnswersPings) or Strand(Silent): the server keeps the old connection
//	F09 F11 F12    OnUpgrade(Any(), NoAnswer), OnUpgrade(Any().Times(3), Status(503)), …
//	F10            On(FromServer, Answer("initialize"), Drop)
//	F13 F14        On(FromServer, Answer("initialize").OnLink(2), Amend(…)) or Fail(code, text)
//	F15            On(FromServer, Answer("process/read").Times(2), SeverBefore)
//	F17 F53–F55    On(FromServer, …, Amend(…))
//	F18 F19 F33    Cut … Mend around it; FreezeAfter where the moment matters
//	F22 F61        Hold, then Rule.Release: to the newest connection if the old one is gone
//	F23            On(FromServer, Answer("initialize").OnLink(2), Precede(…))
//	F24            Freeze, or On(FromServer, …, SwallowAfter)
//	F25–F28        Inject(FromServer, …), or Replace on a message
//	F31 F34 F38    On(FromServer, Answer("process/write"), SeverBefore), and so on
//	F32 F35        On(FromClient, Method("process/write"), SeverBefore)
//	F36 F37        Cut … Mend; Hold on the answer
//	F39 F40 F44    SeverAfter on the request
//	F41–F43        On(FromServer, Answer("process/read").Always(), Drop); then Cut
//	F45 F46        Behind(2), with Duplicate for one that arrives twice
//	F47–F50 F57    On(FromServer, Method("process/output").Nth(2), Drop)
//	F51 F52 F58    need no fault
//	F56            On(FromServer, Method("http/request/bodyDelta").Nth(2), SeverAfter)
//	F59 F60        Follow or Replace with deltas of any size
//
// F21 is a race inside a client, F29 and F30 concern children on pipes.
package cable
