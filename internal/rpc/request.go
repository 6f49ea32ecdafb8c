package rpc

import "github.com/tetherexec/tether/wire"

// A Request is a peer's request that waits for its answer.
type Request struct {
	ID     wire.ID
	Method string
	Params wire.RawValue
	Trace  *wire.Trace // nil: none

	conn   *Conn
	size   int
	free   bool  // it needs no room in memory
	charge int64 // the room it holds in memory, in bytes
	permit permit
}

// Reply answers with a result.
func (r *Request) Reply(result any) {
	msg, err := wire.AppendResult(make([]byte, 0, usualAnswer), r.ID, result)
	if err != nil {
		r.conn.config.Log.Error("cannot encode a result", "method", r.Method, "err", err)
		r.Fail(wire.Errorf(wire.CodeInternal, "internal error"))
		return
	}
	r.ReplyEncoded(msg)
}

// usualAnswer is the initial capacity for an answer, before its size is known.
const usualAnswer = 192

// Fail answers with an error.
func (r *Request) Fail(e *wire.Error) {
	r.ReplyEncoded(wire.AppendError(make([]byte, 0, usualAnswer), r.ID, e))
}

// ReplyEncoded answers with a complete message.
func (r *Request) ReplyEncoded(msg []byte) {
	r.queue(msg, nil)
	r.conn.writer.tryWriteNow(r.conn.allowance.requests.alone())
}

// ReplyEncodedLater answers with a complete message and leaves it to the connection's
// writing goroutine. written is called when the stream has taken the message, and not
// at all if the stream never takes it; it must not wait.
func (r *Request) ReplyEncodedLater(msg []byte, written func()) {
	r.queue(msg, written)
	r.conn.writer.signal()
}

func (r *Request) queue(msg []byte, written func()) {
	if r.permit != (permit{}) {
		r.trim(int64(len(msg)))
	}
	r.push(outgoing{msg: msg, written: written})
}

// ReplyPieces answers with a message that is made while it is written. It waits until
// that is done, or the connection has ended.
func (r *Request) ReplyPieces(pieces Pieces) {
	done := make(chan struct{})
	r.push(outgoing{pieces: pieces, settled: func() { close(done) }})
	r.conn.writer.signal()
	<-done
}

// push queues the answer together with all room that the request holds.
func (r *Request) push(m outgoing) {
	m.claim = claim{request: true, bytes: max(r.size, len(m.msg)-int(r.permit.size())), free: r.free, charge: r.charge, permit: r.permit}
	r.conn.allowance.requests.grow(m.claim.bytes-r.size, r.free)
	r.conn.writer.push(m)
}
