package upload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// A state only moves forward.
type state int

const (
	opening   state = iota // its first request has not ended
	receiving              // the temporary file exists
	committed              // the file is at its target
	gone                   // dropped, or never opened; not in the table any more
)

// An upload is one file in transfer. The request that holds turn owns the fields
// below timer.
type upload struct {
	params wire.UploadOpenParams
	turn   slots.Slots // full: a request holds the upload
	timer  *time.Timer // runs while the upload is idle

	state  state
	temp   *temporary
	record Record // nil: it ends with this program
	have   spans
	sum    prefixSum
	digest [sha256.Size]byte // of a committed file
	used   time.Time         // when the last request ended
}

// newUpload makes an upload that the caller holds.
func newUpload(p wire.UploadOpenParams) *upload {
	u := &upload{params: p, turn: slots.New(1)}
	u.turn.TryTake()
	u.sum.reset()
	return u
}

func (u *upload) opened() wire.UploadOpenResult {
	return wire.UploadOpenResult{Offset: u.have.prefix(), MaxBlock: MaxBlock, Committed: u.state == committed}
}

// catchUp is how much a write reads back to extend the sum over blocks that came
// early: enough for blocks that are slightly out of order.
const catchUp = 2 * MaxBlock

func (u *upload) write(offset uint64, block []byte) error {
	size, n := u.params.Size, uint64(len(block))
	if n > MaxBlock {
		return refuse(ErrInvalid, "a block of %d bytes is above %d", n, MaxBlock)
	}
	if offset > size || n > size-offset {
		return refuse(ErrInvalid, "%d bytes at %d are beyond the size %d", n, offset, size)
	}
	if n == 0 {
		return nil
	}
	have := u.have.with(offset, offset+n)
	if len(have) > MaxSpans {
		return refuse(ErrLimit, "%d parts with gaps between", len(u.have))
	}
	offset, block, err := u.newPart(offset, block)
	if err == nil {
		_, err = u.temp.file.WriteAt(block, int64(offset))
		pointBlock.Passed()
	}
	if err == nil {
		err = u.save(recordedReceiving, have)
	}
	if err != nil {
		return failing(fmt.Sprintf("write %d bytes at %d", len(block), offset), err)
	}
	u.have = have
	u.sum.add(offset, block)
	// If a part cannot be read now, the commit reports it when it reads the
	// part again.
	_ = u.sum.follow(context.Background(), u.temp.file, min(u.have.prefix(), u.sum.upto+catchUp))
	return nil
}

// newPart cuts off the beginning that the sum covers and the file has already, as
// when the response to a block was lost. If the bytes differ, the sum starts again.
func (u *upload) newPart(offset uint64, block []byte) (uint64, []byte, error) {
	if offset >= u.sum.upto {
		return offset, block, nil
	}
	known := min(uint64(len(block)), u.sum.upto-offset)
	same, err := holds(u.temp.file, offset, block[:known])
	if err != nil {
		return offset, block, err
	}
	if !same {
		u.sum.reset()
		return offset, block, nil
	}
	return offset + known, block[known:], nil
}

func (u *upload) commit(ctx context.Context, digest [sha256.Size]byte, sync func(*os.File) error) error {
	if at := u.have.prefix(); at != u.params.Size {
		return refuse(ErrIncomplete, "%d of %d bytes are there, the first that is missing is at %d",
			u.have.total(), u.params.Size, at)
	}
	if err := u.sum.follow(ctx, u.temp.file, u.params.Size); err != nil {
		return failing("read the temporary file", err)
	}
	if got := u.sum.value(); got != digest {
		return refuse(ErrDigest, "the received bytes have %x", got)
	}
	u.digest = digest
	if err := u.install(sync); err != nil {
		return errors.Join(err, u.temp.hide(), u.save(recordedReceiving, u.have))
	}
	u.state, u.temp, u.sum = committed, nil, prefixSum{}
	u.settle()
	return nil
}

var (
	pointFile  = crash.NewPoint("upload.file")
	pointBlock = crash.NewPoint("upload.block")
	pointMoved = crash.NewPoint("upload.moved")
)

// install syncs the file, whose bytes are verified, to the disk and moves it
// to its target.
func (u *upload) install(sync func(*os.File) error) error {
	if err := u.temp.prepare(u.params); err != nil {
		return failing("prepare the file", err)
	}
	if err := sync(u.temp.file); err != nil {
		// Now the content on the disk is unknown, and a second sync would not
		// report the error again.
		u.have = nil
		u.sum.reset()
		return failing("put the file on the disk; send it again", err)
	}
	if err := u.save(recordedCommitting, u.have); err != nil {
		return failing("record the commit", err)
	}
	if err := u.temp.rename(); err != nil {
		return failing("put the file in its place", err)
	}
	return nil
}
