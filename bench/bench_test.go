//go:build linux

package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		samples []float64
		want    float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 100, 2}, 3}} {
		if got := median(test.samples); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.samples, got, test.want)
		}
	}
}

func TestTable(t *testing.T) {
	table := newTable()
	for _, v := range []float64{50, 54, 52} {
		recorder{table, referenceColumn}.took("start", time.Duration(v)*time.Millisecond, time.Millisecond)
	}
	recorder{table, tetherColumn}.add("start", 1.3)
	recorder{table, limitColumn}.add("start", 1)
	recorder{table, tetherColumn}.add("output", 1234.5)
	var got strings.Builder
	table.markdown(&got)
	want := `| median of all repetitions | | reference | tether | ÷ reference | limit | ÷ limit |
|---|---|--:|--:|--:|--:|--:|
| start → exited of /bin/true | ms ↓ | 52 | 1.3 | 0.025× | 1 | 1.3× |
| output of one process | MB/s ↑ | – | 1234 | – | – | – |
`
	if got.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", &got, want)
	}
}

func TestRowsThatMustBeZero(t *testing.T) {
	table := newTable()
	recorder{table, referenceColumn}.add("lost", 18000)
	recorder{table, tetherColumn}.add("lost", 0)
	if errs := table.broken(); len(errs) != 0 {
		t.Errorf("broken: %v", errs)
	}
	recorder{table, tetherColumn}.add("lost", 0.5) // one sample above 0 fails the row, whatever the median
	if errs := table.broken(); len(errs) != 1 {
		t.Errorf("broken: %v", errs)
	}
}

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		raw  string
		size int
		seq  uint64
	}{
		{`{"method":"process/output","params":{"processId":"p","seq":7,"stream":"stdout","chunk":"aGVsbG8="}}`, 5, 7},
		{`{"method":"process/output","params":{"chunk":"aGVsbG8h","processId":"p","seq":8}}`, 6, 8},
		{`{"method":"process/closed","params":{"processId":"p","seq":9}}`, 0, 9},
	} {
		m, err := decode([]byte(test.raw))
		if err != nil || m.size() != test.size || m.Params.Seq != test.seq {
			t.Errorf("%s: %d bytes, number %d, %v", test.raw, m.size(), m.Params.Seq, err)
		}
	}
	m, err := decode([]byte(`{"id":3,"result":{"chunks":[{"seq":1,"chunk":"YQ=="},{"seq":2,"chunk":"Yg=="}]}}`))
	if err != nil || m.ID != 3 || len(m.Result.Chunks) != 2 || string(m.Result.Chunks[1].Chunk) != "b" {
		t.Errorf("answer %+v, %v", m, err)
	}
	if _, err := decode([]byte(`{"method":"process/output","params":{"chunk":"aGV`)); err == nil {
		t.Error("half a message was decoded")
	}
}

// Messages come in one frame, in fragments with a pong between them, and in fragments that are
// larger than the buffer.
func TestRead(t *testing.T) {
	frame := func(first byte, payload []byte) []byte {
		n := len(payload)
		switch {
		case n < 126:
			return append([]byte{first, byte(n)}, payload...)
		case n < 1<<16:
			return append([]byte{first, 126, byte(n >> 8), byte(n)}, payload...)
		}
		return append([]byte{first, 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, payload...)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), receiveBuffer/8)
	in := bytes.Join([][]byte{
		frame(final|opText, []byte("short")),
		frame(final|opText, large[:1000]),
		frame(opText, large[:70000]), frame(final|opPong, []byte("x")), frame(0, large[70000:]), frame(final, nil),
		frame(final|opText, large),
	}, nil)
	s := &socket{in: bufio.NewReaderSize(bytes.NewReader(in), receiveBuffer)}
	for i, want := range [][]byte{[]byte("short"), large[:1000], large, large} {
		if got, err := s.read(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("message %d: %d bytes, want %d; %v", i, len(got), len(want), err)
		}
	}
	if _, err := s.read(); err == nil {
		t.Error("a message came out of nothing")
	}
}

func TestParseCPU(t *testing.T) {
	own, children, err := parseCPU("12 (a ) b) S 1 12 12 0 -1 4194560 100 0 0 0 5 7 11 13 20 0 1 0 300\n")
	if err != nil || own != 120*time.Millisecond || children != 240*time.Millisecond {
		t.Errorf("%v and %v, %v", own, children, err)
	}
	if _, _, err := parseCPU("12 (a) S 1"); err == nil {
		t.Error("times were found where there are none")
	}
}

func TestParseResident(t *testing.T) {
	if got, err := parseResident("Name:\ttether\nVmPeak:\t 99 kB\nVmRSS:\t   5120 kB\nRssAnon:\t 1 kB\n"); err != nil || got != 5<<20 {
		t.Errorf("%d bytes, %v", got, err)
	}
	if _, err := parseResident("Name:\ttether\n"); err == nil {
		t.Error("memory was found where there is none")
	}
}

// Offsets behind a gap are known, and output from before the resume does not count.
func TestReached(t *testing.T) {
	start := time.Now()
	after := func(d time.Duration) time.Time { return start.Add(d) }
	p := pieces{
		1: {make([]byte, 100), after(-time.Second)},
		5: {make([]byte, 50), after(1)}, // from printed-90 on
		6: {make([]byte, 30), after(2)},
		7: {make([]byte, 10), after(3)},
	}
	for offset, want := range map[int64]time.Duration{printed - 95: 0, printed - 60: 1, printed - 30: 2, printed: 3} {
		if got := p.reached(offset, start); !got.Equal(after(want)) {
			t.Errorf("%d before the end: after %d, want %d", printed-offset, got.Sub(start), want)
		}
	}
	if lost, err := p.lost(); err != nil || lost != printed-190 {
		t.Errorf("lost %d, %v", lost, err)
	}
}
