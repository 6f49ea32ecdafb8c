package wire

import (
	"strings"
	"testing"
)

const (
	testTraceID = "0af7651916cd43dd8448eb211c80319c"
	testSpanID  = "b7ad6b7169203331"
)

func TestParseTrace(t *testing.T) {
	valid := "00-" + testTraceID + "-" + testSpanID + "-01"
	for _, tt := range []struct{ parent, want string }{
		{valid, valid},
		{"00-" + testTraceID + "-" + testSpanID + "-00", "00-" + testTraceID + "-" + testSpanID + "-00"},
		{"cc" + valid[2:], valid},
		{"cc" + valid[2:] + "-more", valid},
		{"cc" + valid[2:] + "more", ""},
		{valid + "-more", ""},
		{"ff" + valid[2:], ""},
		{"", ""},
		{valid[:len(valid)-1], ""},
		{strings.ToUpper(valid), ""},
		{strings.Replace(valid, "0af", "0xf", 1), ""},
		{strings.Replace(valid, "-b7", "_b7", 1), ""},
		{"00-" + strings.Repeat("0", 32) + "-" + testSpanID + "-01", ""},
		{"00-" + testTraceID + "-" + strings.Repeat("0", 16) + "-01", ""},
		{"00-" + testTraceID + "-" + testSpanID + "-0\x00", ""},
		{" " + valid, ""},
	} {
		got := ""
		if trace := ParseTrace(tt.parent, ""); trace != nil {
			got = trace.Parent()
		}
		if got != tt.want {
			t.Errorf("%q is the trace %q, want %q", tt.parent, got, tt.want)
		}
	}
	if !ParseTrace(valid, "").Sampled() || ParseTrace(valid[:len(valid)-1]+"2", "").Sampled() {
		t.Error("the flag of a sampled trace is not understood")
	}
}

func TestParseTracestate(t *testing.T) {
	for state, valid := range map[string]bool{
		"":                                   true,
		"congo=t61rcWkgMzE":                  true,
		"rojo=00f067aa0ba902b7, congo=t61 r": true,
		"a@b=1,,c*/_-9=~!":                   true,
		"a":                                  false,
		"=1":                                 false,
		"a=":                                 false,
		"A=1":                                false,
		"_a=1":                               false,
		"a=1=2":                              false,
		"a=\x00":                             false,
		"a=ü":                                false,
		"a=1\n":                              false,
		"a=" + strings.Repeat("x", 600):      false,
		strings.Repeat("a=1,", 31) + "b=1":   true,
		strings.Repeat("a=1,", 32) + "b=1":   false,
		strings.Repeat("k", 257) + "=1":      false,
		"a=" + strings.Repeat("v", 257):      false,
		"k=" + strings.Repeat("v", 256):      true,
	} {
		trace := ParseTrace("00-"+testTraceID+"-"+testSpanID+"-01", state)
		if trace == nil || (trace.State == state) != valid {
			t.Errorf("%q: %+v, want valid: %t", state, trace, valid)
		}
	}
}

// The trace of a request is read with the message, and a trace that is invalid is no error.
func TestTraceOfARequest(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":1,"method":"x","trace":{"traceparent":"00-` + testTraceID + `-` + testSpanID + `-01","tracestate":"a=1"}}`: "00-" + testTraceID + "-" + testSpanID + "-01 a=1",
		`{"id":1,"method":"x","trace":{"traceparent":"00-` + testTraceID + `-` + testSpanID + `-01","tracestate":"?"}}`:   "00-" + testTraceID + "-" + testSpanID + "-01 ",
		`{"id":1,"method":"x","trace":{"traceparent":"nonsense"}}`:                                                        "",
		`{"id":1,"method":"x","trace":{"tracestate":"a=1"}}`:                                                              "",
		`{"id":1,"method":"x","trace":{}}`:                                                                                "",
		`{"id":1,"method":"x","trace":null}`:                                                                              "",
		`{"id":1,"method":"x"}`:                                                                                           "",
	} {
		m, err := Parse([]byte(text))
		got := ""
		if m.Trace != nil {
			got = m.Trace.Parent() + " " + m.Trace.State
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}
