package client

import (
	"context"
	"time"

	"github.com/tetherexec/tether/wire"
)

// Features of servers that show logs in pages and describe processes, for [Client.Has].
const (
	FeatureReadAny  = "readAny"
	FeatureDescribe = "describe"
)

// A Page is a run of events of a process, without gaps.
type Page struct {
	Events []Observed
	First  uint64 // the oldest event that the server still has
	Next   uint64 // the next number that the process will assign
}

// PageBefore returns the newest events before number seq, which may be larger than any, and before those of the given number of
// bytes, as [wire.ReadAnyParams] counts them; 0: of [wire.DefaultPage]. It returns at least one event, if the server has one. The process and its client do not
// notice it.
func (r *Remote) PageBefore(ctx context.Context, seq uint64, maxBytes int) (Page, error) {
	return r.page(ctx, wire.ReadAnyParams{BeforeSeq: &seq}, maxBytes)
}

// PageAfter is PageBefore for the oldest events after number seq.
func (r *Remote) PageAfter(ctx context.Context, seq uint64, maxBytes int) (Page, error) {
	return r.page(ctx, wire.ReadAnyParams{AfterSeq: &seq}, maxBytes)
}

func (r *Remote) page(ctx context.Context, params wire.ReadAnyParams, maxBytes int) (Page, error) {
	if !r.client.Has(FeatureReadAny) {
		return Page{}, unsupported("reading pages of output")
	}
	params.ProcessID, params.SessionID = r.process, &r.sessionID
	if maxBytes > 0 {
		most := uint64(maxBytes)
		params.MaxBytes = &most
	}
	var result wire.ReadAnyResult
	if err := r.client.Call(ctx, Idempotent, wire.MethodProcessReadAny, params, &result); err != nil {
		return Page{}, err
	}
	page := Page{First: result.FirstSeq, Next: result.NextSeq, Events: make([]Observed, 0, len(result.Events))}
	for _, e := range result.Events {
		page.Events = append(page.Events, observed(e))
	}
	return page, nil
}

// observed returns an event of a page.
func observed(e wire.LogEvent) Observed {
	o := Observed{Event{Kind: Output, Seq: e.Seq, Stream: e.Stream, Data: e.Chunk}, time.UnixMilli(e.TimeMs)}
	switch e.Kind {
	case wire.EventExited:
		o.Event = Event{Kind: Exited, Seq: e.Seq, SandboxDenied: e.SandboxDenied, verdictKnown: true,
			Denial: e.TetherDenial, Limit: e.TetherLimit, Failure: e.TetherFailure, Usage: e.TetherUsage}
		if e.ExitCode != nil {
			o.ExitCode = *e.ExitCode
		}
	case wire.EventClosed:
		o.Event = Event{Kind: Closed, Seq: e.Seq, Survivors: e.TetherSurvivors}
	}
	return o
}

// Describe returns the facts about the process: what was asked for, what is in force, and what has become of it.
func (r *Remote) Describe(ctx context.Context) (d wire.DescribeResult, err error) {
	if !r.client.Has(FeatureDescribe) {
		return d, unsupported("describing a process")
	}
	err = r.client.Call(ctx, Idempotent, wire.MethodProcessDescribe, wire.DescribeParams{ProcessID: r.process, SessionID: &r.sessionID}, &d)
	return d, err
}
