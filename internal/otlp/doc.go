// Package otlp exports spans to a collector, in the JSON form of the OpenTelemetry protocol over HTTP.
//
// It promises that recording a span never waits. Spans wait for the collector in a queue with a limit; above the limit they are dropped and
// counted, and so are those that the collector does not take.
//
// encode.go has the form of the messages, exporter.go the queue and the requests.
package otlp
