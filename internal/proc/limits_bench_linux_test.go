package proc

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkStartLimited starts /bin/true without limits, and with limits of memory, processors, processes, open files and time, in
// turn. On a busy machine compare the tenth percentiles.
func BenchmarkStartLimited(b *testing.B) {
	limited := trueSpec
	limited.Limits = Limits{LimitMemory: 256 << 20, LimitCPUs: 1500, LimitProcesses: 256, LimitFiles: 256, LimitTime: uint64(time.Hour)}
	rows := []*struct {
		name  string
		spec  Spec
		sup   *Supervisor
		times []time.Duration
	}{
		{name: "plain", spec: trueSpec},
		{name: "limited", spec: limited},
	}
	for _, r := range rows {
		r.sup = New(Config{})
		defer r.sup.Close()
		if err := r.sup.CheckLimits(r.spec.Limits); err != nil {
			b.Skip(err)
		}
		startTrue(b, r.sup, r.spec) // makes what all starts need
	}
	for b.Loop() {
		for _, r := range rows {
			begun := time.Now()
			startTrue(b, r.sup, r.spec)
			r.times = append(r.times, time.Since(begun))
		}
	}
	for _, r := range rows {
		slices.Sort(r.times)
		b.ReportMetric(float64(r.times[len(r.times)/10].Microseconds()), r.name+"-p10-µs")
		b.ReportMetric(float64(r.times[len(r.times)/2].Microseconds()), r.name+"-p50-µs")
	}
}
