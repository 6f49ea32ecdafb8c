package session

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/wire"
)

// If output can no longer be read, a read returns an error. An empty answer would make
// the client ask for ever.
func TestSpoolThatCannotBeRead(t *testing.T) {
	table := newTable(t, nil)
	a := open(t, table, Options{})
	p := adopt(a.Session, "p", finished(t))
	defer p.Log.End()
	if err := p.Log.Append(outlog.Stdout, bytes.Repeat([]byte("x"), 4<<20)); err != nil {
		t.Fatal(err)
	}
	truncateSpool(t)
	for _, limit := range []*uint64{nil, new(uint64(1000))} {
		r, err := a.Read(&wire.ReadParams{ProcessID: "p", MaxBytes: limit})
		if err != nil {
			t.Fatal(err)
		}
		if page, err := r.Collect(func(outlog.Entry) {}); err == nil {
			t.Errorf("read %+v", page)
		}
	}
}

// truncateSpool empties the spool file of this test, which has no name.
func truncateSpool(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := fmt.Sprintf("/proc/self/fd/%s", entry.Name())
		if link, _ := os.Readlink(name); strings.Contains(link, "/spool-") {
			if err := os.Truncate(name, 0); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("there is no spool file")
}
