package arena

import (
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// worker is what this program does, instead of running tests, if workerVariable is set;
// nil: there are no arenas on this system.
var worker func(seed uint64)

// workerVariable has the seed of a worker.
const workerVariable = "ARENA_TEST_WORKER"

func TestMain(m *testing.M) {
	if seed, err := strconv.ParseUint(os.Getenv(workerVariable), 10, 64); err == nil {
		worker(seed)
		return
	}
	goleak.VerifyTestMain(m)
}
