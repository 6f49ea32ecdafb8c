package metrics

import (
	"slices"
	"sync/atomic"
	"time"
)

// A Set is the metrics of a program, in the order in which they were made. Its zero value is empty. Metrics are made before it is used.
type Set struct{ families []family }

// A family is the metrics with one name.
type family interface{ write(*text) }

// A head is what all families have.
type head struct{ name, help string }

// Other is the value of a label that is none of those named.
const Other = "other"

// A Label is a label with all its values. Other is one of them.
type Label struct {
	Name   string
	Values []string
}

// A Counter counts events, by the values of its labels.
type Counter struct {
	head
	labels []Label
	cells  []atomic.Uint64
}

// Counter makes a counter. Its name ends with _total.
func (s *Set) Counter(name, help string, labels ...Label) *Counter {
	c := &Counter{head: head{name, help}, labels: labels}
	size := 1
	for i, l := range labels {
		labels[i].Values = append(slices.Clone(l.Values), Other)
		size *= len(labels[i].Values)
	}
	c.cells = make([]atomic.Uint64, size)
	s.families = append(s.families, c)
	return c
}

// Inc counts one event. It takes a value for each label.
func (c *Counter) Inc(values ...string) { c.Of(values...).Add(1) }

// Of returns the count for a value of each label, for callers that need it often.
func (c *Counter) Of(values ...string) *atomic.Uint64 { return &c.cells[c.cell(values)] }

// cell returns the place of a combination of values.
func (c *Counter) cell(values []string) (i int) {
	for k, l := range c.labels {
		v := slices.Index(l.Values, values[k])
		if v < 0 {
			v = len(l.Values) - 1
		}
		i = i*len(l.Values) + v
	}
	return i
}

func (c *Counter) write(t *text) {
	t.head(c.head, "counter")
	for i := range c.cells {
		if n := c.cells[i].Load(); n > 0 || len(c.labels) == 0 {
			t.sample(c.name, c.valuesOf(i), float64(n))
		}
	}
}

// valuesOf is the inverse of cell.
func (c *Counter) valuesOf(i int) []pair {
	pairs := make([]pair, len(c.labels))
	for k := len(c.labels) - 1; k >= 0; k-- {
		l := c.labels[k]
		pairs[k] = pair{l.Name, l.Values[i%len(l.Values)]}
		i /= len(l.Values)
	}
	return pairs
}

// A value is a metric that is asked for when the metrics are written.
type value struct {
	head
	kind string
	ask  func() float64
}

// Gauge makes a metric that goes up and down.
func (s *Set) Gauge(name, help string, ask func() float64) {
	s.families = append(s.families, &value{head{name, help}, "gauge", ask})
}

// Sum makes a counter that another part of the program keeps.
func (s *Set) Sum(name, help string, ask func() float64) {
	s.families = append(s.families, &value{head{name, help}, "counter", ask})
}

func (v *value) write(t *text) {
	t.head(v.head, v.kind)
	t.sample(v.name, nil, v.ask())
}

// A fact is a metric whose value is always 1.
type fact struct {
	head
	pairs []pair
}

// Fact makes a metric with the value 1 whose labels tell something: names and values in turn.
func (s *Set) Fact(name, help string, labels ...string) {
	f := &fact{head: head{name, help}}
	for i := 0; i < len(labels); i += 2 {
		f.pairs = append(f.pairs, pair{labels[i], labels[i+1]})
	}
	s.families = append(s.families, f)
}

func (f *fact) write(t *text) {
	t.head(f.head, "gauge")
	t.sample(f.name, f.pairs, 1)
}

// A Histogram counts durations by how long they are.
type Histogram struct {
	head
	bounds []time.Duration
	counts []atomic.Uint64 // by the first bound that is not exceeded; the last one has the rest
	sum    atomic.Int64    // nanoseconds
}

// Histogram makes a histogram with these upper bounds, shortest first.
func (s *Set) Histogram(name, help string, bounds ...time.Duration) *Histogram {
	h := &Histogram{head: head{name, help}, bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
	s.families = append(s.families, h)
	return h
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.sum.Add(int64(d))
	h.counts[i].Add(1)
}

func (h *Histogram) write(t *text) {
	t.head(h.head, "histogram")
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = number(h.bounds[i].Seconds())
		}
		t.sample(h.name+"_bucket", []pair{{"le", bound}}, float64(total))
	}
	t.sample(h.name+"_sum", nil, time.Duration(h.sum.Load()).Seconds())
	t.sample(h.name+"_count", nil, float64(total))
}
