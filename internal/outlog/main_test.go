package outlog

import (
	"hash/maphash"
	"math/rand/v2"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// worker is what this program does, instead of running tests, if workerVariable is set;
// nil: there is no worker on this system.
var worker func(config string)

const workerVariable = "OUTLOG_TEST_WORKER"

func TestMain(m *testing.M) {
	if config := os.Getenv(workerVariable); config != "" {
		worker(config)
		return
	}
	goleak.VerifyTestMain(m)
}

// ample is a pool total that no test reaches.
const ample = 1 << 30

// Used is the number of bytes that logs have spooled.
func (p *Pool) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// noiseLen is prime, so that neither blocks nor entries line up with it.
const noiseLen = 1<<20 + 7

// Each worker of a test makes it again, so it has to be made quickly.
var noise = func() []byte {
	b := make([]byte, noiseLen)
	rand.NewChaCha8([32]byte{1, 2}).Read(b)
	return append(b, b...)
}()

// pattern is what the tests write at a given offset of a stream; n is at most
// noiseLen.
func pattern(s Stream, offset int64, n int) []byte {
	start := int(offset+int64(s)*333_667) % noiseLen
	return noise[start : start+n]
}

var hashSeed = maphash.MakeSeed()

// A sighting is an entry as a reader saw it.
type sighting struct {
	kind   Kind
	stream Stream
	code   int
	at     int64
	size   int
	hash   uint64
}

func sight(e Entry) sighting {
	return sighting{e.Kind, e.Stream, e.ExitCode, e.Time.UnixNano(), len(e.Data), maphash.Bytes(hashSeed, e.Data)}
}

func (s sighting) cost() int64 { return int64(s.size) + EntryOverhead }

// testTimeout is how long a test waits for an event that must happen at once.
const testTimeout = hang.Limit

// A writer appends the pattern of one stream.
type writer struct {
	log    *Log
	stream Stream
	offset int64
	buf    []byte
}

// write appends n bytes from a buffer that it reuses, to check that Append copies
// them.
func (w *writer) write(n int) error {
	w.buf = append(w.buf[:0], pattern(w.stream, w.offset, n)...)
	w.offset += int64(n)
	err := w.log.Append(w.stream, w.buf)
	clear(w.buf)
	return err
}
