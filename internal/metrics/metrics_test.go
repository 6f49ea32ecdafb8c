package metrics

import (
	"strings"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	var s Set
	s.Fact("build_info", "The build.", "version", "1.0\"\\\n")
	plain := s.Counter("starts_total", "Starts.")
	byKind := s.Counter("exits_total", "Exits.", Label{"kind", []string{"success", "failure"}}, Label{"by", []string{"itself"}})
	s.Gauge("running", "Running.", func() float64 { return 2.5 })
	s.Sum("bytes_total", "Bytes.", func() float64 { return 1 << 40 })
	h := s.Histogram("start_seconds", "Time.", time.Millisecond, 10*time.Millisecond)
	plain.Of().Add(7)
	byKind.Inc("failure", "itself")
	byKind.Inc("failure", "nothing that was named")
	byKind.Inc("unheard of", "itself")
	for _, d := range []time.Duration{time.Microsecond, time.Millisecond, 2 * time.Millisecond, time.Second} {
		h.Observe(d)
	}
	var b strings.Builder
	s.Write(&b)
	const want = `# HELP build_info The build.
# TYPE build_info gauge
build_info{version="1.0\"\\\n"} 1
# HELP starts_total Starts.
# TYPE starts_total counter
starts_total 7
# HELP exits_total Exits.
# TYPE exits_total counter
exits_total{kind="failure",by="itself"} 1
exits_total{kind="failure",by="other"} 1
exits_total{kind="other",by="itself"} 1
# HELP running Running.
# TYPE running gauge
running 2.5
# HELP bytes_total Bytes.
# TYPE bytes_total counter
bytes_total 1.099511627776e+12
# HELP start_seconds Time.
# TYPE start_seconds histogram
start_seconds_bucket{le="0.001"} 2
start_seconds_bucket{le="0.01"} 3
start_seconds_bucket{le="+Inf"} 4
start_seconds_sum 1.003001
start_seconds_count 4
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if n := byKind.Of("failure", "itself").Load(); n != 1 {
		t.Errorf("the value is %d", n)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	var s Set
	c := s.Counter("c_total", "", Label{"kind", []string{"a", "b"}})
	h := s.Histogram("h", "", time.Second)
	if n := testing.AllocsPerRun(100, func() { c.Inc("b"); h.Observe(time.Minute) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
