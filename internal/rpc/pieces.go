package rpc

import (
	"errors"
	"fmt"
	"sync"
)

// Pieces makes a message while it is written, so that no more than a piece of it is in
// memory. Each call appends the next piece to b, of about PieceSize bytes, and says
// whether there are more. The writer of the connection calls it and waits for it.
//
// If a message cannot be completed, the connection ends, because the peer has
// received a part of it.
type Pieces func(b []byte) (piece []byte, more bool, err error)

// PieceSize is the room in the buffer that Pieces are given.
const PieceSize = 512 << 10

var pieceBuffers = sync.Pool{New: func() any { b := make([]byte, 0, PieceSize); return &b }}

// errCutShort means that a message could not be completed, and that the peer was told.
var errCutShort = errors.New("a message was cut short")

// writePieces writes a message while next makes it.
func (w *writer) writePieces(next Pieces) error {
	buffer := pieceBuffers.Get().(*[]byte)
	defer pieceBuffers.Put(buffer)
	for first, more := true, true; more; first = false {
		var piece []byte
		var err error
		if piece, more, err = next((*buffer)[:0]); err != nil {
			return w.cutShort(err)
		}
		if err := w.stream.WritePart(piece, first, !more); err != nil {
			return err
		}
		if err := w.writeControl(); err != nil && more {
			return err
		}
	}
	return nil
}

// writeControl writes the control frames that are due, in the middle of a message.
func (w *writer) writeControl() error {
	if b := w.appendControl(nil, w.queue.takeControl()); len(b) > 0 {
		return w.stream.Write(b)
	}
	return nil
}

// cutShort ends the connection in the middle of a message.
func (w *writer) cutShort(why error) error {
	e := violation(CloseInternal, fmt.Sprintf("an answer could not be completed: %v", why))
	w.close(e)
	if err := w.stream.Write(w.stream.Control(nil, CloseFrame, ClosePayload(e))); err != nil {
		return err
	}
	return errCutShort
}
