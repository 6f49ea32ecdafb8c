package helper

import (
	"errors"
	"reflect"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

var requests = []*Request{
	{ID: 1, Op: OpOpen, Path: "/a\xff", Follow: true, Body: []byte{}},
	{ID: 1 << 40, Op: OpCopy, Path: "/a", Target: "/b", Recursive: true, Body: []byte{}},
	{ID: 2, Op: OpWriteFile, Path: "/a", Body: []byte("data")},
	{ID: 2, Op: OpWriteFile, Path: "/a", File: true, Body: []byte{}},
	{ID: 3, Op: OpWalk, Path: "/", Walk: wire.WalkOptions{MaxDepth: 1, MaxDirectories: 2, MaxEntries: 3, FollowDirectorySymlinks: true}, Body: []byte{}},
	{ID: 4, Op: OpRemove, Path: "/a", Force: true, Body: []byte{}},
	{ID: 5, Op: OpCancel, Body: []byte{}},
}

func TestRequest(t *testing.T) {
	for _, r := range requests {
		got, err := DecodeRequest(r.Append(nil))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
	}
}

// A decoded request is the same when it is encoded and decoded again.
func FuzzRequest(f *testing.F) {
	for _, r := range requests {
		f.Add(r.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRequest(b)
		if err != nil {
			return
		}
		again, err := DecodeRequest(r.Append(nil))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

func TestAnswerErrors(t *testing.T) {
	for _, err := range []error{
		syscall.EROFS, syscall.ENOENT, syscall.EACCES, syscall.ELOOP, syscall.EINVAL,
		&files.Error{Err: syscall.EBUSY}, &files.Error{Err: files.ErrSymlink},
		files.NewError(wire.CodeNotFound, "gone"), errors.New("odd"),
	} {
		want, is := errors.AsType[*files.Error](err)
		if !is {
			want = &files.Error{Err: err}
		}
		a, decodeErr := DecodeAnswer((&Answer{ID: 7, Err: err}).Append(nil))
		if decodeErr != nil || a.ID != 7 {
			t.Fatalf("%v: %+v %v", err, a, decodeErr)
		}
		got, is := errors.AsType[*files.Error](a.Err)
		if !is || got.Error() != want.Error() || got.Code() != want.Code() {
			t.Errorf("%v (%d) became %v", want, want.Code(), a.Err)
		}
		if errno, is := errors.AsType[syscall.Errno](err); is && !errors.Is(a.Err, errno) {
			t.Errorf("%v is not %v any more", a.Err, errno)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add((&Answer{ID: 1, Body: []byte("x")}).Append(nil))
	f.Add((&Answer{ID: 1, File: true, Large: true}).Append(nil))
	f.Add((&Answer{ID: 1, Err: syscall.EROFS}).Append(nil))
	f.Add((&Answer{ID: 1, Err: errors.New("odd")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAnswer(b)
		if err != nil {
			return
		}
		again, err := DecodeAnswer(a.Append(nil))
		if err != nil || again.ID != a.ID || again.File != a.File || (again.Err == nil) != (a.Err == nil) ||
			a.Err != nil && again.Err.Error() != a.Err.Error() || string(again.Body) != string(a.Body) {
			t.Errorf("%+v became %+v, %v", a, again, err)
		}
	})
}

var rules = sandbox.Rulebook{
	Rules: []sandbox.BookRule{{Path: "/", Access: sandbox.Read}, {Path: "/a/.git", Access: sandbox.Deny, Private: true, Absent: "/a"}},
	Globs: []sandbox.BookGlob{{Dir: "/a", Pattern: "*.env", Depth: 3}},
	Ops:   []sandbox.Op{{Kind: sandbox.OpBindRO, Path: "/"}, {Kind: sandbox.OpBindRW, Path: "/a"}},
}

// The bodies of answers, and the rules.
func FuzzBodies(f *testing.F) {
	f.Add(AppendRules(nil, rules))
	f.Add(AppendMetadata(nil, wire.MetadataResult{IsFile: true, Size: 1 << 60, CreatedAtMs: -1, ModifiedAtMs: 5}))
	f.Add(AppendEntries(nil, []wire.DirectoryEntry{{FileName: "a", IsFile: true}, {FileName: "b", IsDirectory: true}}))
	f.Add(AppendWalk(nil, wire.WalkResult{
		Entries: []wire.WalkEntry{{Path: "file:///a", Kind: wire.WalkFile}, {Path: "file:///b", Kind: wire.WalkDirectory}},
		Errors:  []wire.WalkError{{Path: "file:///c", Message: "no"}}, Truncated: true,
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := DecodeRules(b); err == nil {
			same(t, v, AppendRules(nil, v), DecodeRules)
		}
		if v, err := DecodeMetadata(b); err == nil {
			same(t, v, AppendMetadata(nil, v), DecodeMetadata)
		}
		if v, err := DecodeEntries(b); err == nil {
			same(t, v, AppendEntries(nil, v), DecodeEntries)
		}
		if v, err := DecodeWalk(b); err == nil {
			same(t, v, AppendWalk(nil, v), DecodeWalk)
		}
	})
}

func same[T any](t *testing.T, v T, encoded []byte, decode func([]byte) (T, error)) {
	t.Helper()
	if again, err := decode(encoded); err != nil || !reflect.DeepEqual(again, v) {
		t.Errorf("%+v became %+v, %v", v, again, err)
	}
}

func TestRules(t *testing.T) { same(t, rules, AppendRules(nil, rules), DecodeRules) }
