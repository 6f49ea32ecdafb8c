// Package metrics counts what a server does, and writes it in the text format of Prometheus.
//
// It promises that counting never waits and allocates nothing, and that nothing grows: the values of every label are named when the
// metric is made, and any other value counts as "other".
//
// Where a change belongs: metrics.go has the kinds of metrics, text.go the format. Which metrics there are is decided by their owner.
package metrics
