package helper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/reexec"
)

// channel is the socket to the server.
const channel = 0

// AtOnce is how many requests are served at the same time; the server sends no more.
const AtOnce = 64

// exitBroken is the exit status of a helper that cannot continue.
const exitBroken = 125

func init() { reexec.Register(reexec.Files, runHelper) }

// runHelper serves requests until the server closes its end of the socket.
func runHelper([]string) int {
	if err := newHelper(channel).serve(); err != nil {
		fmt.Fprintf(os.Stderr, "tether: %v\n", err)
		return exitBroken
	}
	return 0
}

// A helper serves requests from a socket. The goroutine that receives a request
// also serves it: passing a small request to another thread would take longer than
// serving it. Another goroutine waits for the next request meanwhile.
type helper struct {
	socket int
	files  files.Files
	ended  chan error // capacity 1; nil: the other end is closed

	mu      sync.Mutex
	running map[uint64]context.CancelFunc
	early   map[uint64]struct{} // cancelled before another receiver has registered them
	waiting int                 // receivers that wait for a request
}

func newHelper(socket int) *helper {
	return &helper{
		socket: socket, ended: make(chan error, 1),
		running: make(map[uint64]context.CancelFunc), early: make(map[uint64]struct{}),
	}
}

// maxWaiting is how many receivers wait for a request: one that has just served a
// request, and one that has waited meanwhile. Each is a thread with a buffer.
const maxWaiting = 2

// serve returns when the other end is closed. It does not wait for requests in
// progress, because their answers cannot be delivered.
func (h *helper) serve() error {
	h.waiting = 1
	go h.receiveAll() // ends with the process, like everything that it starts
	return <-h.ended
}

// receiveAll serves requests until enough other goroutines do.
func (h *helper) receiveAll() {
	buffer := make([]byte, MaxMessage)
	for {
		r, file, err := h.receive(buffer)
		if err == nil {
			err = h.take(r, file)
		}
		if err != nil {
			h.end(err)
			return
		}
		h.mu.Lock()
		enough := h.waiting >= maxWaiting
		if !enough {
			h.waiting++
		}
		h.mu.Unlock()
		if enough {
			return
		}
	}
}

// end reports why nothing is received any more.
func (h *helper) end(err error) {
	if err == io.EOF {
		err = nil
	}
	select {
	case h.ended <- err:
	default: // another goroutine has reported it
	}
}

// take handles a message. The caller counts as waiting until take calls
// leave.
func (h *helper) take(r *Request, file *os.File) error {
	switch {
	case h.files == nil: // the only receiver so far
		defer file.Close()
		h.leave(false)
		return h.takeRules(r, file)
	case r.Op == OpCancel:
		defer file.Close()
		h.leave(false)
		h.cancel(r.ID)
		return nil
	case r.Op == OpRules:
		file.Close()
		return errors.New("the rules cannot change")
	}
	h.leave(true)
	h.perform(r, file)
	return nil
}

// leave notes that a receiver does not wait any more. If it may be busy for long
// and no other receiver waits, leave starts another one.
func (h *helper) leave(busy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
	if busy && h.waiting == 0 {
		h.waiting++
		go h.receiveAll() // ends with the process, or when there are enough
	}
}

// receive reads a message. The file may be nil.
func (h *helper) receive(buffer []byte) (*Request, *os.File, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, err := recvmsg(h.socket, buffer, rights)
	if err != nil {
		return nil, nil, fmt.Errorf("receive a request: %w", err)
	}
	if n == 0 {
		return nil, nil, io.EOF
	}
	file, err := FileFrom(rights[:oobn])
	if err != nil {
		return nil, nil, err
	}
	r, err := DecodeRequest(buffer[:n])
	if err == nil && (flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || r.File != (file != nil)) {
		err = ErrMessage
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	if !r.File {
		r.Body = append([]byte(nil), r.Body...) // the buffer is used again
	}
	return r, file, nil
}

// recvmsg uses package syscall as package net does. The function of golang.org/x/sys has another type for each kind of address, 30 KB in all.
func recvmsg(fd int, p, oob []byte) (n, oobn, flags int, err error) {
	for {
		n, oobn, flags, _, err = syscall.Recvmsg(fd, p, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, oobn, flags, err
		}
	}
}

// FileFrom returns the file that came with a message; nil: none.
func FileFrom(rights []byte) (*os.File, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, ErrMessage
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, ErrMessage
	}
	return os.NewFile(uintptr(fds[0]), "passed"), nil
}

// takeRules takes the rules, which must be the first message.
func (h *helper) takeRules(r *Request, file *os.File) error {
	if r.Op != OpRules {
		return errors.New("the rules must come first")
	}
	encoded, err := bodyOf(r.Body, file, MaxRules)
	if err != nil {
		return err
	}
	rules, err := DecodeRules(encoded)
	if err != nil {
		return err
	}
	judge, err := rules.Judge()
	if err != nil {
		return err
	}
	h.files = &guard{judge: judge, files: files.Direct{}}
	return h.send(&Answer{ID: r.ID}, nil)
}

// bodyOf returns a body that came in the message or in a file.
func bodyOf(body []byte, file *os.File, limit int64) ([]byte, error) {
	if file == nil {
		return body, nil
	}
	return ReadPassed(file, limit)
}

// ReadPassed reads a file in memory that came with a message.
func ReadPassed(file *os.File, limit int64) ([]byte, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at a passed file: %w", err)
	case !info.Mode().IsRegular() || info.Size() > limit:
		return nil, ErrMessage
	}
	b := make([]byte, info.Size())
	if _, err := file.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read a passed file: %w", err)
	}
	return b, nil
}

// PassedBytes makes a file in memory to be passed.
func PassedBytes(b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("tether message", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "message")
	if _, err := file.Write(b); err != nil {
		file.Close()
		return nil, fmt.Errorf("fill a file in memory: %w", err)
	}
	return file, nil
}

func (h *helper) cancel(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.running[id]; cancel != nil {
		cancel()
		return
	}
	// Not registered yet, or answered already.
	if len(h.early) >= AtOnce {
		clear(h.early)
	}
	h.early[id] = struct{}{}
}

// perform serves a request.
func (h *helper) perform(r *Request, file *os.File) {
	ctx, cancel := context.WithCancel(context.Background())
	h.mu.Lock()
	h.running[r.ID] = cancel
	if _, ok := h.early[r.ID]; ok {
		delete(h.early, r.ID)
		cancel()
	}
	h.mu.Unlock()
	answer, opened := h.answer(ctx, r, file)
	file.Close()
	h.mu.Lock()
	delete(h.running, r.ID)
	h.mu.Unlock()
	cancel()
	h.reply(answer, opened)
}

// reply sends an answer; a large body is sent in a file.
func (h *helper) reply(a *Answer, opened *os.File) {
	if len(a.Body) > MaxMessage/2 {
		var err error
		if opened, err = PassedBytes(a.Body); err != nil {
			a.Err = err
		}
		a.Body, a.Large = nil, err == nil
	}
	if err := h.send(a, opened); err != nil && err != unix.EPIPE {
		fmt.Fprintf(os.Stderr, "tether: send an answer: %v\n", err)
		os.Exit(exitBroken) // otherwise the server would wait for ever
	}
	opened.Close()
}

func (h *helper) send(a *Answer, file *os.File) error {
	var rights []byte
	if a.File = file != nil; a.File {
		rights = unix.UnixRights(int(file.Fd()))
	}
	message := a.Append(nil)
	for {
		err := unix.Sendmsg(h.socket, message, rights, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// answer carries out a request. Dot segments are removed by their names alone,
// as the protocol demands.
func (h *helper) answer(ctx context.Context, r *Request, file *os.File) (a *Answer, opened *os.File) {
	a = &Answer{ID: r.ID}
	for _, name := range []*string{&r.Path, &r.Target} {
		if *name == "" && name == &r.Target && r.Op != OpCopy {
			continue
		}
		if !path.IsAbs(*name) || strings.ContainsRune(*name, 0) {
			a.Err = unix.EINVAL
			return a, nil
		}
		*name = path.Clean(*name)
	}
	switch r.Op {
	case OpOpen:
		opened, a.Err = h.files.Open(ctx, r.Path, r.Follow)
	case OpReplace:
		opened, a.Err = h.files.Replace(ctx, r.Path)
	case OpWriteFile:
		var data []byte
		if data, a.Err = bodyOf(r.Body, file, MaxData); a.Err == nil {
			a.Err = h.files.WriteFile(ctx, r.Path, data, r.Follow)
		}
	case OpCreateDirectory:
		a.Err = h.files.CreateDirectory(ctx, r.Path, r.Recursive, r.Follow)
	case OpMetadata:
		m, err := h.files.Metadata(ctx, r.Path, r.Follow)
		a.Body, a.Err = AppendMetadata(nil, m), err
	case OpCanonicalize:
		real, err := h.files.Canonicalize(ctx, r.Path)
		a.Body, a.Err = []byte(real), err
	case OpReadDirectory:
		entries, err := h.files.ReadDirectory(ctx, r.Path)
		a.Body, a.Err = AppendEntries(nil, entries), err
	case OpWalk:
		result, err := h.files.Walk(ctx, r.Path, r.Walk)
		a.Body, a.Err = AppendWalk(nil, result), err
	case OpRemove:
		a.Err = h.files.Remove(ctx, r.Path, files.RemoveHow{Recursive: r.Recursive, Force: r.Force, Follow: r.Follow})
	case OpCopy:
		a.Err = h.files.Copy(ctx, r.Path, r.Target, r.Recursive)
	default:
		a.Err = ErrMessage
	}
	if a.Err != nil {
		a.Body = nil
	}
	return a, opened
}
