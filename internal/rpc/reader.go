package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/tetherexec/tether/wire"
)

// read takes messages off the stream and handles them until the connection ends. It returns why.
func (c *Conn) read() error {
	for {
		c.liveness.reading.Store(true)
		data, err := c.stream.Read()
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		c.liveness.reading.Store(false)
		c.liveness.messages.Add(uint64(len(data)))
		charge, ok := c.arrival.take()
		if err == nil && ok {
			err = c.receive(data, charge)
		} else {
			err = c.refuse(data)
		}
		if err != nil {
			return err
		}
	}
}

// receive handles a message. charge is the room that it holds.
func (c *Conn) receive(data []byte, charge int64) error {
	if c.config.Peek != nil {
		if taken, err := c.config.Peek(data); taken || err != nil {
			c.allowance.memory.in.Release(charge)
			return err
		}
	}
	msg, err := wire.Parse(data)
	switch {
	case err != nil:
		return c.malformed(data, charge, err)
	case msg.Kind == wire.KindRequest:
		r := &Request{ID: msg.ID, Method: msg.Method, Params: msg.Params, Trace: msg.Trace, conn: c, size: len(data), charge: charge}
		in, ending := c.admit(r)
		if in {
			c.config.Handler.Request(r)
		}
		return ending
	}
	defer c.allowance.memory.in.Release(charge)
	if msg.Kind == wire.KindNotification {
		return c.config.Handler.Notification(msg.Method, msg.Params)
	}
	c.liveness.answers.Add(1)
	if !c.calls.resolve(msg) && !c.config.Client && c.config.Salvage == nil {
		return violation(ClosePolicy, "response to a request that was never sent")
	}
	return nil
}

// malformed answers a malformed message with an error, drops it or ends the connection.
func (c *Conn) malformed(data []byte, charge int64, err error) error {
	id := wire.IntID(-1) // the id of an answer to a request whose id is unknown
	if c.config.Salvage != nil {
		var waits bool
		if id, waits = c.config.Salvage(data); !waits {
			c.allowance.memory.in.Release(charge)
			c.config.Log.Debug("dropped a malformed message", "err", err)
			return nil
		}
	}
	if c.config.Client {
		return violation(CloseBadData, "not a message: "+err.Error())
	}
	r := &Request{ID: id, conn: c, size: len(data), charge: charge}
	in, ending := c.admit(r)
	if in {
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "%s%v", c.config.ParsePrefix, err))
	}
	return ending
}

// admit waits until there is room for a request. It reports false if it has refused the
// request. An error ends the connection.
func (c *Conn) admit(r *Request) (bool, error) {
	b := &c.allowance
	free, ok := b.requests.enter(r.size, r.charge > 0, c.config.Urgent != nil && c.config.Urgent(r.Method))
	if !ok {
		b.memory.in.Release(r.charge)
		return false, c.writer.queue.reason()
	}
	if r.free = free; free || r.charge > 0 {
		return true, nil
	}
	cost := max(int64(r.size), requestCost)
	switch err := b.memory.acquire(c.ctx, b.memory.in, cost); {
	case err == nil:
		r.charge = cost
		return true, nil
	case !errors.Is(err, ErrNoRoom):
		b.requests.leave(r.size, false)
		return false, err
	}
	refusal := c.refusalOf(r.Method)
	if refusal == nil {
		return false, errTryAgain
	}
	r.Fail(refusal)
	return false, nil
}

// refuse answers the request that was dropped because there was no room for it.
// head is its beginning.
func (c *Conn) refuse(head []byte) error {
	id, method, ok := requestHead(head)
	var refusal *wire.Error
	if ok {
		refusal = c.refusalOf(method)
	}
	if refusal == nil {
		return errTryAgain
	}
	free, ok := c.allowance.requests.enter(0, false, true)
	if !ok {
		return c.writer.queue.reason()
	}
	r := &Request{ID: id, Method: method, conn: c, free: free}
	r.Fail(refusal)
	return nil
}

var errTryAgain = violation(CloseTryAgain, ErrNoRoom.Error())

func (c *Conn) refusalOf(method string) *wire.Error {
	if c.config.Refusal != nil {
		return c.config.Refusal(method)
	}
	return wire.Errorf(wire.CodeInvalidRequest, "%v", ErrNoRoom)
}

// requestHead finds the id and the method of a request of which only the beginning was kept.
func requestHead(head []byte) (id wire.ID, method string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(head))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return id, "", false
	}
	var rawID json.RawMessage
	for rawID == nil || method == "" {
		key, err := d.Token()
		if err != nil {
			return id, "", false
		}
		var value json.RawMessage
		if d.Decode(&value) != nil { // the value is cut off
			return id, "", false
		}
		switch key {
		case "id":
			rawID = value
		case "method":
			if json.Unmarshal(value, &method) != nil {
				return id, "", false
			}
		}
	}
	request, err := wire.Parse([]byte(`{"method":"","id":` + string(rawID) + `}`))
	return request.ID, method, err == nil
}
