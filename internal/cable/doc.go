// Package cable is a cable to cut: a proxy between any client and any server of
// this protocol that makes the faults that networks and broken peers make, on
// demand and exactly where a test wants them.
//
//	c, err := cable.Lay(ctx, cable.Config{Target: server.URL})
//	…
//	defer c.Close()
//	client.Dial(c.URL())
//
//	c.Cut()                      // both ends lose it; new connections are refused
//	c.Mend()                     // until here
//	c.Freeze(cable.FromServer)   // open, and silent in one direction
//
//	// The second output is lost, everything else arrives.
//	r := c.On(cable.FromServer, cable.Method("process/output").Nth(2), cable.Drop)
//	r.Await(ctx, 1)
//
//	// The server has taken the write, its answer never arrives.
//	c.On(cable.FromServer, cable.Answer("process/write"), cable.SeverBefore)
//
// Faults come in three sizes. Those of the cable concern every connection: Cut,
// Sever, Reset, Refuse, Freeze, HalfClose, Strand, SetLatency, SetRate. Those of
// an upgrade are given to OnUpgrade: a status, or no answer at all. Those of a
// message are rules: a direction, a Match and what to do. A rule acts once
// unless its Match says Times or Always, and a rule without actions counts.
// Nothing in a test has to sleep: Rule.Await waits until a rule has acted.
//
// What no fault concerns arrives as it was sent: fragments stay fragments, pings
// and close frames pass, and so do bytes that are no WebSocket at all. Only the
// opening request is touched: it names the target's host, and no extension is
// offered, since a compressed message could not be read.
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
