package upload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/wire"
)

func TestUpload(t *testing.T) {
	s := newSite(t)
	data := noise(10_000)
	if got, want := s.open("a", "new", len(data)), (wire.UploadOpenResult{MaxBlock: MaxBlock}); got != want {
		t.Errorf("opened: %+v", got)
	}
	if got, want := s.write("a", 0, data[:6000]), (wire.UploadWriteResult{Received: 6000, Offset: 6000}); got != want {
		t.Errorf("wrote: %+v", got)
	}
	if info, err := os.Stat(s.left()[0]); err != nil || info.Mode() != 0o600 {
		t.Errorf("temporary file: %v, %v", info.Mode(), err)
	}
	s.write("a", 6000, data[6000:])
	if _, err := os.Stat(s.path("new")); !os.IsNotExist(err) {
		t.Errorf("the target is there before the commit: %v", err)
	}
	s.commit("a", data)
	s.holds("new", data)
	s.clean()
	want := wire.UploadStatusResult{Size: 10_000, Received: 10_000, Offset: 10_000, Ranges: []wire.UploadRange{{Start: 0, End: 10_000}}, Committed: true}
	if got := s.status("a"); !reflect.DeepEqual(got, want) {
		t.Errorf("status: %+v", got)
	}
}

func TestEmptyUpload(t *testing.T) {
	s := newSite(t)
	s.put("f", "old", 0o644)
	s.open("a", "f", 0)
	s.write("a", 0, nil)
	s.commit("a", nil)
	s.holds("f", nil)
}

// A client whose connection broke opens again and continues.
func TestOpenAgainContinues(t *testing.T) {
	s := newSite(t)
	data := noise(3000)
	s.open("a", "f", 3000)
	s.write("a", 0, data[:1000])
	s.write("a", 2000, data[2000:])
	if got := s.open("a", "f", 3000); got.Offset != 1000 {
		t.Errorf("opened again: %+v", got)
	}
	mode := uint32(0o600)
	other := s.params("a", "f", 3000)
	other.Mode = &mode
	for _, p := range []wire.UploadOpenParams{s.params("a", "f", 3001), s.params("a", "g", 3000), other} {
		_, err := s.tryOpen(p)
		s.fails(err, ErrDiffers, wire.CodeInvalidRequest)
	}
	s.write("a", 1000, data[1000:2000])
	s.commit("a", data)
	s.holds("f", data)
}

// Blocks may come in any order, twice, or overlapping: only the bytes that
// they cover count.
func TestBlocksInAnyOrder(t *testing.T) {
	data := noise(300_000)
	for seed := range uint64(8) {
		s := newSite(t)
		random := rand.New(rand.NewPCG(seed, 0))
		s.open("a", "f", len(data))
		var have spans
		for have.prefix() < uint64(len(data)) {
			start := max(0, random.IntN(len(data)+50_000)-50_000)
			end := min(len(data), start+1+random.IntN(90_000))
			have = have.with(uint64(start), uint64(end))
			got := s.write("a", start, data[start:end])
			if got.Received != have.total() || got.Offset != have.prefix() {
				t.Fatalf("wrote %d-%d: %+v, want %v", start, end, got, have)
			}
			if ranges := s.status("a").Ranges; !slices.Equal(ranges, have) {
				t.Fatalf("there is %v, want %v", ranges, have)
			}
		}
		s.commit("a", data)
		s.holds("f", data)
	}
}

// The sum is ready when blocks come in order, or nearly. It restarts if a block
// changes bytes that it covers, but not if a block repeats them.
func TestSumOfNearlyOrderedBlocks(t *testing.T) {
	s := newSite(t)
	data := noise(4000)
	s.open("a", "f", len(data))
	upto := func() uint64 { return s.table.uploads["a"].sum.upto }
	for _, step := range []struct {
		start, end int
		want       uint64
	}{
		{0, 1000, 1000}, {2000, 3000, 1000}, {1000, 2000, 3000}, {500, 1500, 3000}, {2500, 3500, 3500},
	} {
		s.write("a", step.start, data[step.start:step.end])
		if upto() != step.want {
			t.Errorf("after %d-%d the sum covers %d, want %d", step.start, step.end, upto(), step.want)
		}
	}
	s.write("a", 100, []byte("other bytes"))
	s.write("a", 3500, data[3500:])
	s.fails(s.tryCommit("a", data), ErrDigest, wire.CodeInvalidRequest)
	copy(data[100:], "other bytes")
	s.commit("a", data)
	s.holds("f", data)
}

// A wrong digest leaves the target and the upload; blocks can be sent again.
func TestWrongDigest(t *testing.T) {
	s := newSite(t)
	s.put("f", "old", 0o644)
	s.open("a", "f", 5)
	s.write("a", 0, []byte("wrong"))
	s.fails(s.tryCommit("a", []byte("right")), ErrDigest, wire.CodeInvalidRequest)
	s.holds("f", []byte("old"))
	s.write("a", 0, []byte("right"))
	s.commit("a", []byte("right"))
	s.holds("f", []byte("right"))
}

// A commit whose response was lost can be repeated.
func TestCommitTwice(t *testing.T) {
	s := newSite(t)
	s.open("a", "f", 4)
	s.write("a", 0, []byte("data"))
	s.commit("a", []byte("data"))
	s.put("f", "later", 0o644)
	s.commit("a", []byte("data"))
	s.holds("f", []byte("later")) // the repeated commit did nothing
	if got := s.open("a", "f", 4); !got.Committed || got.Offset != 4 {
		t.Errorf("opened again: %+v", got)
	}
	s.fails(s.tryCommit("a", []byte("DATA")), ErrDigest, wire.CodeInvalidRequest)
	_, err := s.tryWrite("a", 0, []byte("data"))
	s.fails(err, ErrCommitted, wire.CodeInvalidRequest)
	_, err = s.tryOpen(s.params("a", "f", 5))
	s.fails(err, ErrDiffers, wire.CodeInvalidRequest)
	err = s.table.Abort(context.Background(), wire.UploadParams{UploadID: "a"})
	s.fails(err, ErrCommitted, wire.CodeInvalidRequest)
}

// The memory of committed uploads is bounded.
func TestOldCommitsAreForgotten(t *testing.T) {
	s := newSite(t)
	for i := range MaxCommitted + 1 {
		id := fmt.Sprint(i)
		s.open(id, "f", 0)
		s.commit(id, nil)
	}
	s.fails(s.tryCommit("0", nil), ErrUnknown, wire.CodeNotFound)
	s.commit("1", nil)
}

func TestAbort(t *testing.T) {
	s := newSite(t)
	s.put("f", "old", 0o644)
	s.open("a", "f", 4)
	s.write("a", 0, []byte("data"))
	s.abort("a")
	s.clean()
	s.abort("a")
	s.abort("never there")
	s.holds("f", []byte("old"))
	s.fails(s.tryCommit("a", []byte("data")), ErrUnknown, wire.CodeNotFound)
	if got := s.open("a", "f", 9); got.Offset != 0 { // the id is free again
		t.Errorf("opened again: %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	mode := uint32(0o4755)
	withMode := s.params("a", "f", 1)
	withMode.Mode = &mode
	large := s.params("a", "f", 0)
	large.Size = math.MaxInt64 + 1
	foreign := s.params("a", "f", 1)
	foreign.Path = wire.PathURI{}
	for _, p := range []wire.UploadOpenParams{s.params("", "f", 1), s.params(strings.Repeat("x", MaxID+1), "f", 1), withMode, large} {
		_, err := s.tryOpen(p)
		s.fails(err, ErrInvalid, wire.CodeInvalidRequest)
	}
	_, err := s.tryOpen(foreign)
	if e, ok := errors.AsType[*Error](err); !ok || e.Code() != wire.CodeInvalidRequest {
		t.Errorf("no path: %v", err)
	}
	s.open(strings.Repeat("x", MaxID), "f", 1)

	s.open("a", "f", 10)
	for _, block := range []struct {
		offset uint64
		bytes  int
	}{{10, 1}, {11, 0}, {0, 11}, {math.MaxUint64, 2}, {0, MaxBlock + 1}} {
		_, err := s.table.Write(ctx, wire.UploadWriteParams{UploadID: "a", Offset: block.offset, Chunk: make([]byte, block.bytes)})
		s.fails(err, ErrInvalid, wire.CodeInvalidRequest)
	}
	s.write("a", 3, make([]byte, 7))
	s.fails(s.tryCommit("a", make([]byte, 10)), ErrIncomplete, wire.CodeInvalidRequest)
	for _, sum := range []string{"", "xyz", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		_, err := s.table.Commit(ctx, wire.UploadCommitParams{UploadID: "a", SHA256: sum})
		s.fails(err, ErrInvalid, wire.CodeInvalidRequest)
	}

	_, err = s.tryWrite("b", 0, nil)
	s.fails(err, ErrUnknown, wire.CodeNotFound)
	_, err = s.table.Status(ctx, wire.UploadParams{UploadID: "b"})
	s.fails(err, ErrUnknown, wire.CodeNotFound)
}

func TestLimits(t *testing.T) {
	s := newSite(t)
	for i := range MaxUploads {
		s.open(fmt.Sprint(i), "f", 4*MaxSpans)
	}
	_, err := s.tryOpen(s.params("more", "f", 1))
	s.fails(err, ErrLimit, wire.CodeInvalidRequest)
	_, err = s.tryOpen(s.params("more", "missing/f", 1))
	s.fails(err, ErrLimit, wire.CodeInvalidRequest)
	s.abort("0")
	_, err = s.tryOpen(s.params("more", "missing/f", 1)) // a failed open takes no room
	s.fails(err, syscall.ENOENT, wire.CodeNotFound)
	s.open("more", "f", 1)

	for i := range MaxSpans {
		s.write("1", 2*i+2, []byte{1})
	}
	_, err = s.tryWrite("1", 0, []byte{1})
	s.fails(err, ErrLimit, wire.CodeInvalidRequest)
	s.write("1", 3, []byte{1}) // closes a gap
	s.write("1", 0, []byte{1})
}

func TestSessionEnd(t *testing.T) {
	s := newSite(t)
	s.put("f", "old", 0o644)
	s.open("a", "f", 4)
	s.open("b", "g", 4)
	s.write("a", 0, []byte("data"))
	if err := s.table.Close(); err != nil {
		t.Fatal(err)
	}
	s.clean()
	s.holds("f", []byte("old"))
	s.fails(s.tryCommit("a", []byte("data")), ErrEnded, wire.CodeInvalidRequest)
	_, err := s.tryOpen(s.params("c", "f", 1))
	s.fails(err, ErrEnded, wire.CodeInvalidRequest)
}

// A session can end while its uploads are being opened and written.
func TestSessionEndDuringRequests(t *testing.T) {
	s := newSite(t)
	data := noise(100_000)
	var started, done sync.WaitGroup
	for i := range MaxUploads {
		started.Add(1)
		done.Go(func() {
			id := fmt.Sprint(i)
			_, err := s.tryOpen(s.params(id, id, len(data)))
			started.Done()
			for err == nil {
				_, err = s.tryWrite(id, 0, data)
				if err == nil {
					_ = s.tryCommit(id, data[1:]) // with the wrong content
				}
			}
			s.fails(err, ErrEnded, wire.CodeInvalidRequest)
		})
	}
	started.Wait()
	if err := s.table.Close(); err != nil {
		t.Error(err)
	}
	s.clean()
	done.Wait()
	s.clean()
}

// The first request to open an upload makes it; all others get the same upload.
// Concurrent blocks and commits end in one file.
func TestConcurrentRequests(t *testing.T) {
	s := newSite(t)
	data := noise(1 << 20)
	var hands sync.WaitGroup
	for range 4 {
		hands.Go(func() {
			if _, err := s.tryOpen(s.params("a", "f", len(data))); err != nil {
				t.Error(err)
			}
			for _, block := range rand.Perm(16) {
				if _, err := s.tryWrite("a", block<<16, data[block<<16:][:1<<16]); err != nil && !errors.Is(err, ErrCommitted) {
					t.Error(err)
				}
			}
			if err := s.tryCommit("a", data); err != nil {
				t.Error(err)
			}
		})
	}
	hands.Wait()
	s.holds("f", data)
}

// A waiting request ends with its context.
func TestWaitEndsWithRequest(t *testing.T) {
	s := newSite(t)
	s.open("a", "f", 1)
	u := s.table.uploads["a"]
	if err := s.table.take(context.Background(), u); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.table.Status(ctx, wire.UploadParams{UploadID: "a"})
	s.fails(err, context.Canceled, wire.CodeInternal)
	s.table.release(u)
	s.status("a")
}

func TestIdleUploadsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.open("a", "f", 1)
		s.open("b", "f", 1)
		time.Sleep(IdleLimit - time.Second)
		s.status("b")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, err := s.tryWrite("a", 0, []byte{1})
		s.fails(err, ErrUnknown, wire.CodeNotFound)
		s.write("b", 0, []byte{1})
		if left := s.left(); len(left) != 1 {
			t.Errorf("left: %v", left)
		}
		time.Sleep(IdleLimit + time.Second)
		synctest.Wait()
		s.clean()
	})
}

// A timer that fires while a request uses the upload, or just after, drops
// nothing.
func TestLateTimerDropsNothing(t *testing.T) {
	s := newSite(t)
	s.open("a", "f", 1)
	u := s.table.uploads["a"]
	fire := func() {
		s.table.timers.Add(1)
		s.table.expire(u)
	}
	fire()
	if err := s.table.take(context.Background(), u); err != nil {
		t.Fatal(err)
	}
	fire()
	s.table.release(u)
	s.status("a")
}

// A request that waits for an upload that ends meanwhile makes a new one.
func TestOpenAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.open("a", "f", 2)
		s.write("a", 0, []byte("x"))
		u := s.table.uploads["a"]
		if err := s.table.take(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		var result wire.UploadOpenResult
		var opened, written error
		var waiting sync.WaitGroup
		waiting.Go(func() { _, written = s.tryWrite("a", 0, []byte("y")) })
		synctest.Wait()
		waiting.Go(func() { result, opened = s.tryOpen(s.params("a", "g", 3)) })
		synctest.Wait()
		if err := s.table.drop(u); err != nil {
			t.Error(err)
		}
		s.table.release(u)
		waiting.Wait()
		if opened != nil || result.Offset != 0 {
			t.Errorf("opened: %+v, %v", result, opened)
		}
		if written != nil { // it came before the new upload, or after
			s.fails(written, ErrUnknown, wire.CodeNotFound)
		}
	})
}

// A Place must return a name in the directory that it returns.
func TestPlaceMustReturnName(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"", ".", "..", "../f", "/etc/f"} {
		place := func(context.Context, string) (*os.File, string, error) {
			dir, err := os.Open(s.dir)
			return dir, name, err
		}
		_, err := s.table.Open(context.Background(), place, s.params("a", "f", 1))
		s.fails(err, syscall.EINVAL, wire.CodeInvalidRequest)
	}
}

// BenchmarkWrite receives a file in blocks of 1 MiB.
func BenchmarkWrite(b *testing.B) {
	table := New(Config{})
	defer table.Close()
	const size = 256 << 20
	ctx, block := context.Background(), noise(1<<20)
	path := uri(b.TempDir() + "/f")
	b.SetBytes(size)
	for b.Loop() {
		if _, err := table.Open(ctx, Direct, wire.UploadOpenParams{UploadID: "a", Path: path, Size: size}); err != nil {
			b.Fatal(err)
		}
		for at := uint64(0); at < size; at += 1 << 20 {
			if _, err := table.Write(ctx, wire.UploadWriteParams{UploadID: "a", Offset: at, Chunk: block}); err != nil {
				b.Fatal(err)
			}
		}
		if err := table.Abort(ctx, wire.UploadParams{UploadID: "a"}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTenCuts sends 64 MiB over a connection that breaks ten times: the
// responses to some blocks are lost, and some blocks never arrive.
func TestTenCuts(t *testing.T) {
	s := newSite(t)
	s.put("f", "old", 0o644)
	data := noise(64 << 20)
	random := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cuts := map[int]bool{}
	for len(cuts) < 10 {
		cuts[random.IntN(len(data)>>20)] = true
	}
	at := s.open("a", "f", len(data)).Offset
	for at < uint64(len(data)) {
		block := data[at:min(at+1<<20, uint64(len(data)))]
		if cuts[int(at>>20)] {
			delete(cuts, int(at>>20))
			if random.IntN(2) == 0 {
				s.write("a", int(at), block[:random.IntN(len(block))])
			}
			s.holds("f", []byte("old"))
			if random.IntN(2) == 0 { // or continue with the same block without asking
				at = s.open("a", "f", len(data)).Offset
			}
			continue
		}
		at = s.write("a", int(at), block).Offset
	}
	if covered := s.table.uploads["a"].sum.upto; covered != at {
		t.Errorf("the sum covers %d of %d bytes", covered, at)
	}
	s.table.uploads["a"].sum.reset() // the commit must read everything
	s.commit("a", data)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d bytes allocated for %d", grown, len(data))
	}
	s.holds("f", data)
}
