package wire

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// start returns the parameters of a process/start with extra members.
func start(extra string) string {
	return `{"processId":"p","argv":["ls"],"cwd":"file:///tmp","env":{},"tty":false` + extra + `}`
}

func TestDecodeStart(t *testing.T) {
	var got StartParams
	in := `{"processId":"p","metadata":{"threadId":"t","toolCallId":null,"new":1},"argv":["a","\u00e9\ud83d\ude00"],
		"cwd":"file:///a/../b%20c","envPolicy":{"inherit":"core","ignoreDefaultExcludes":true,"exclude":[],"set":{"A":"1"},"includeOnly":["X"]},
		"env":{"B":"2"},"tty":true,"pipeStdin":true,"arg0":"x","managedNetwork":{"loopbackPorts":[0,65535]},
		"networkProxy":{"proxy":{"enabled":true,"enableSocks5":true,"enableSocks5Udp":false,"allowUpstreamProxy":true,
		"dangerouslyAllowAllUnixSockets":false,"mode":"limited","domains":{"a.example":"allow","b":"none"},"unixSockets":{"/s":"deny"},"allowLocalBinding":true},
		"auditMetadata":{"model":"m"},"executionId":"e","policyDecisionTimeoutMs":7},"shellSnapshot":null,"retry":true,"size":{"rows":24,"cols":80},"unknown":{"tty":5},"TTY":false}`
	if err := Decode([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	thread, arg0, retry, model, execution, limit := "t", "x", true, "m", "e", uint64(7)
	proxy := NetworkProxy{
		Proxy: NetworkProxySettings{
			Enabled: true, EnableSocks5: true, AllowUpstreamProxy: true, Mode: NetworkModeLimited, AllowLocalBinding: true,
			Domains: &DomainRules{"a.example": DomainAllow, "b": DomainNone}, UnixSockets: &SocketRules{"/s": "deny"},
		},
		AuditMetadata: AuditMetadata{Model: &model}, ExecutionID: &execution, PolicyDecisionTimeoutMs: &limit,
	}
	want := StartParams{
		ProcessID: "p", Metadata: &StartMetadata{ThreadID: &thread}, Argv: []string{"a", "é😀"},
		Cwd:       Cwd{uri: PathURI{"file:///b%20c"}},
		EnvPolicy: &EnvPolicy{Inherit: InheritCore, IgnoreDefaultExcludes: true, Exclude: []string{}, Set: map[string]string{"A": "1"}, IncludeOnly: []string{"X"}},
		Env:       map[string]string{"B": "2"}, TTY: true, PipeStdin: true, Arg0: &arg0,
		ManagedNetwork: &ManagedNetwork{LoopbackPorts: []uint16{0, 65535}},
		NetworkProxy:   &proxy, Retry: &retry, Size: &TermSize{Rows: 24, Cols: 80},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := Decode([]byte(start("")), new(StartParams)); err != nil {
		t.Errorf("only required members: %v", err)
	}
}

// The texts were taken from the reference where it has the field.
func TestDecodeErrors(t *testing.T) {
	for _, tt := range []struct {
		into     any
		in, want string
	}{
		{new(InitializeParams), ``, "invalid type: null, expected struct InitializeParams"},
		{new(InitializeParams), `null`, "invalid type: null, expected struct InitializeParams"},
		{new(InitializeParams), `1.5`, "invalid type: number, expected struct InitializeParams"},
		{new(InitializeParams), `true`, "invalid type: boolean `true`, expected struct InitializeParams"},
		{new(InitializeParams), `[]`, "invalid type: sequence, expected struct InitializeParams"},
		{new(InitializeParams), `"a\"b\n\u00e9\u0001\u200b\\'"`, `invalid type: string "a\"b\né\u{1}\u{200b}\\'", expected struct InitializeParams`},
		{new(InitializeParams), `{}`, "missing field `clientName`"},
		{new(InitializeParams), `{"clientname":"x"}`, "missing field `clientName`"},
		{new(InitializeParams), `{"clientName":null}`, "invalid type: null, expected a string"},
		{new(InitializeParams), `{"resumeSessionId":{},"clientName":5}`, "invalid type: map, expected a string"},
		{new(StartParams), `null`, "invalid type: null, expected struct WireExecParams"},
		{new(StartParams), `{}`, "missing field `processId`"},
		{new(StartParams), `{"processId":"p","argv":[],"cwd":"file:///","env":{}}`, "missing field `tty`"},
		{new(StartParams), start(`,"metadata":5`), "invalid type: number, expected struct ExecMetadata"},
		{new(StartParams), start(`,"pipeStdin":null`), "invalid type: null, expected a boolean"},
		{new(StartParams), start(`,"enforceManagedNetwork":"x"`), `invalid type: string "x", expected a boolean`},
		{new(StartParams), start(`,"arg0":99999999999999999999`), "invalid type: number, expected a string"},
		{new(StartParams), start(`,"managedNetwork":{"loopbackPorts":null}`), "invalid type: null, expected a sequence"},
		{new(StartParams), start(`,"managedNetwork":{"loopbackPorts":[65536]}`), "invalid number"},
		{new(StartParams), start(`,"managedNetwork":{"loopbackPorts":["a"]}`), `invalid type: string "a", expected u16`},
		{new(StartParams), start(`,"managedNetwork":{"dangerouslyAllowAllUnixSockets":5}`), "invalid type: number, expected a boolean"},
		{new(StartParams), start(`,"networkProxy":5`), "invalid type: number, expected struct RemoteNetworkProxyLaunchConfig"},
		{new(StartParams), start(`,"networkProxy":{}`), "missing field `proxy`"},
		{new(StartParams), start(`,"networkProxy":{"proxy":5}`), "invalid type: number, expected struct RemoteNetworkProxyConfig"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{}}`), "missing field `enabled`"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"enabled":true}}`), "missing field `enableSocks5`"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"mode":"x"}}`), "unknown variant `x`, expected `limited` or `full`"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"mode":null}}`), "invalid type: null, expected string or map"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"domains":[]}}`), "invalid type: sequence, expected a map"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"domains":{"a":"zzz"}}}`), "unknown variant `zzz`, expected one of `none`, `allow`, `deny`"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"domains":{"a":5}}}`), "invalid type: number, expected string or map"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"unixSockets":{"/a":"none"}}}`), "unknown variant `none`, expected `allow` or `deny`"},
		{new(StartParams), start(`,"networkProxy":{"proxy":{"reviewDomains":null}}`), "invalid type: null, expected a sequence"},
		{new(StartParams), start(`,"networkProxy":{"auditMetadata":null}`), "invalid type: null, expected struct NetworkProxyAuditMetadata"},
		{new(StartParams), start(`,"networkProxy":{"auditMetadata":{"conversationId":5}}`), "invalid type: number, expected a string"},
		{new(StartParams), start(`,"networkProxy":{"policyDecisionTimeoutMs":-1}`), "invalid number"},
		{new(StartParams), start(`,"envPolicy":{}`), "missing field `inherit`"},
		{new(StartParams), start(`,"envPolicy":{"inherit":"xx"}`), "unknown variant `xx`, expected one of `core`, `all`, `none`"},
		{new(StartParams), start(`,"envPolicy":{"inherit":null}`), "invalid type: null, expected string or map"},
		{new(StartParams), start(`,"envPolicy":{"inherit":{}}`), "invalid value: map, expected map with a single key"},
		{new(StartParams), `{"argv":"ls"}`, `invalid type: string "ls", expected a sequence`},
		{new(StartParams), `{"argv":[null]}`, "invalid type: null, expected a string"},
		{new(StartParams), `{"env":[]}`, "invalid type: sequence, expected a map"},
		{new(StartParams), `{"env":{"a":null}}`, "invalid type: null, expected a string"},
		{new(StartParams), `{"cwd":{}}`, "invalid type: map, expected a string"},
		{new(StartParams), `{"cwd":"tmp"}`, "invalid URI: relative URL without a base"},
		{new(ReadParams), `{"processId":"p","afterSeq":-1}`, "invalid number"},
		{new(ReadParams), `{"processId":"p","afterSeq":1.0}`, "invalid number"},
		{new(ReadParams), `{"processId":"p","afterSeq":1e1}`, "invalid number"},
		{new(ReadParams), `{"processId":"p","afterSeq":18446744073709551616}`, "invalid number"},
		{new(ReadParams), `{"afterSeq":"x"}`, `invalid type: string "x", expected u64`},
		{new(ReadParams), `{"maxBytes":"1"}`, `invalid type: string "1", expected usize`},
		{new(SignalParams), `{"processId":"p","signal":"kill"}`, "unknown variant `kill`, expected `interrupt`"},
		{new(ProcessParams), `null`, "invalid type: null, expected struct TerminateParams"},
		{new(MetadataParams), `{"path":"/tmp"}`, "invalid URI: relative URL without a base"},
		{new(MetadataParams), `{"path":"file:///","followSymlinks":5}`, "invalid type: number, expected a boolean"},
		{new(ReadFileParams), `null`, "invalid type: null, expected struct WireFsReadFileParams"},
		{new(WriteFileParams), `null`, "invalid type: null, expected struct WireFsWriteFileParams"},
		{new(OpenParams), `null`, "invalid type: null, expected struct WireFsOpenParams"},
		{new(ReadBlockParams), `null`, "invalid type: null, expected struct FsReadBlockParams"},
		{new(WriteBlockParams), `null`, "invalid type: null, expected struct FsWriteBlockParams"},
		{new(HandleParams), `null`, "invalid type: null, expected struct FsCloseParams"},
		{new(CreateDirectoryParams), `null`, "invalid type: null, expected struct WireFsCreateDirectoryParams"},
		{new(CanonicalizeParams), `null`, "invalid type: null, expected struct WireFsCanonicalizeParams"},
		{new(ReadDirectoryParams), `null`, "invalid type: null, expected struct WireFsReadDirectoryParams"},
		{new(WalkParams), `null`, "invalid type: null, expected struct WireFsWalkParams"},
		{new(RemoveParams), `null`, "invalid type: null, expected struct WireFsRemoveParams"},
		{new(CopyParams), `null`, "invalid type: null, expected struct WireFsCopyParams"},
		{new(WatchMissingParams), `null`, "invalid type: null, expected struct FsWatchMissingParams"},
		{new(ConfigReadParams), `[]`, "invalid type: sequence, expected struct EnvironmentConfigReadParams"},
		{new(NoParams), `{"a":1}`, "invalid type: map, expected unit"},
		{new(NoParams), `[]`, "invalid type: sequence, expected unit"},
		{new(NoParams), `5`, "invalid type: number, expected unit"},
		{new(SignalAnyParams), `{"processId":"p","signal":"nope"}`, "unknown signal `nope`"},
		{new(ResizeParams), `{"processId":"p","rows":70000,"cols":1}`, "invalid number"},
		{new(ResizeParams), `{"processId":"p","rows":7,"cols":1,"sessionId":7}`, "invalid type: number, expected a string"},
		{new(SignalParams), `{"processId":"p","signal":"interrupt","onceId":7}`, "invalid type: number, expected a string"},
		{new(CloseStdinParams), `{"sessionId":"s","onceId":"o"}`, "missing field `processId`"},
		{new(WriteAnyParams), `{"sessionId":"s","processId":"p","chunk":"YQ"}`, "Invalid padding"},
		{new(WriteAnyParams), `{"sessionId":"s","processId":"p","chunk":""}`, "missing field `writeId`"},
		{new(TerminateAnyParams), `{"sessionId":"s"}`, "missing field `processId`"},
		{new(SessionEndParams), `{"sessionId":[]}`, "invalid type: sequence, expected a string"},
		{new(StateParams), `{"sessionId":"s"}`, "missing field `processId`"},
		{new(StateParams), `{"processId":"p","sessionId":1}`, "invalid type: number, expected a string"},
		{new(SearchParams), `{"pattern":"x"}`, "missing field `processId`"},
		{new(SearchParams), `{"processId":"p","fromLine":-1}`, "invalid number"},
		{new(SearchParams), `{"processId":"p","ignoreCase":"yes"}`, `invalid type: string "yes", expected a boolean`},
		{new(SearchParams), `{"processId":"p","pattern":5}`, "invalid type: number, expected a string"},
		{new(SessionEndParams), `null`, "invalid type: null, expected struct SessionEndParams"},
		{new(InitializeParams), `{"clientName":"c","tether":{"label":5}}`, "invalid type: number, expected a string"},
	} {
		if err := Decode([]byte(tt.in), tt.into); err == nil || err.Error() != tt.want {
			t.Errorf("Decode(%s, %T): %v; want %s", tt.in, tt.into, err, tt.want)
		}
	}
}

func TestDecodeNumbersAtTheEdge(t *testing.T) {
	var p ReadParams
	if err := Decode([]byte(`{"processId":"p","afterSeq":18446744073709551615,"maxBytes":-0,"waitMs":null}`), &p); err != nil {
		t.Fatal(err)
	}
	if *p.AfterSeq != 1<<64-1 || *p.MaxBytes != 0 || p.WaitMs != nil {
		t.Errorf("got %d, %d, %v", *p.AfterSeq, *p.MaxBytes, p.WaitMs)
	}
}

func TestDecodeNoParams(t *testing.T) {
	for _, in := range []string{"", "null", "{}", " { } "} {
		if err := Decode([]byte(in), new(NoParams)); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestDecodeSignal(t *testing.T) {
	for _, name := range []string{"SIGTERM", "TERM", "term", "sigterm", "SigTerm"} {
		if got, err := ParseSignal(name); got != "SIGTERM" || err != nil {
			t.Errorf("ParseSignal(%q) = %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "SIG", "9", "SIGSIGTERM", "TERM "} {
		if got, err := ParseSignal(name); err == nil {
			t.Errorf("ParseSignal(%q) = %q", name, got)
		}
	}
}

// An error repeats only a bounded part of the peer's text.
func TestDecodeErrorsAreBounded(t *testing.T) {
	long := `"` + strings.Repeat("é", 1<<20) + `"`
	for _, v := range []any{new(InitializeParams), new(Inherit), new(PathURI), new(SignalAny)} {
		if err := Decode([]byte(long), v); err == nil || len(err.Error()) > 2*maxQuoted {
			t.Errorf("%T: an error of %d bytes", v, len(err.Error()))
		}
	}
	key := strings.Repeat("k", 1<<20)
	if _, err := Parse([]byte(`{"` + key + `":1,"` + key + `":2}`)); err == nil || len(err.Error()) > 2*maxQuoted {
		t.Error("the duplicate key is repeated in full")
	}
}

func TestCwd(t *testing.T) {
	skipOnWindows(t)
	for _, tt := range []struct{ in, native, uri string }{
		{"file:///a%20b/", "/a b/", "file:///a%20b/"},
		{"/a b", "/a b", "file:///a%20b"},
		{"/link/../x", "/link/../x", "file:///x"}, // the kernel resolves it, not we
		{"/C:/x", "/C:/x", "file:///%00/bad/path/L0M6L3g"},
		{"/100%", "/100%", "file:///100%25"},
	} {
		var c Cwd
		if err := Decode(AppendString(nil, tt.in), &c); err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if native, err := c.Native(); native != tt.native || err != nil || c.String() != tt.uri {
			t.Errorf("%q: Native %q, %v, String %s; want %q and %s", tt.in, native, err, c, tt.native, tt.uri)
		}
	}
}

// Additions to lists may be missing in the answers of older servers.
func TestDecodeListsWithoutAdditions(t *testing.T) {
	var session SessionInfo
	in := `{"sessionId":"s","clientName":"c","attached":true,"createdAtMs":1,"ttlMs":2,"processes":3`
	if err := Decode([]byte(in+`}`), &session); err != nil || session.Label != "" {
		t.Errorf("%+v, %v", session, err)
	}
	if err := Decode([]byte(in+`,"label":"l"}`), &session); err != nil || session.Label != "l" {
		t.Errorf("%+v, %v", session, err)
	}
	var process ProcessInfo
	in = `{"sessionId":"s","processId":"p","argv":[],"cwd":"file:///","pid":1,"tty":false,"startedAtMs":1,"state":"running","nextSeq":1,
		"sentSeq":0,"heldBytes":0,"unsentBytes":0,"spooledBytes":0,"blocked":false,"observers":0`
	if err := Decode([]byte(in+`}`), &process); err != nil || process.CPUMs != nil || process.MemoryBytes != nil || process.StateDetail != nil {
		t.Errorf("%+v, %v", process, err)
	}
	detail := `,"stateDetail":{"activity":"sleeping","text":"t","source":"system","asOfMs":1,"silentMs":2}}`
	if err := Decode([]byte(in+detail), &process); err != nil || process.StateDetail.Activity != ActivitySleeping || process.StateDetail.Evidence != nil {
		t.Errorf("%+v, %v", process, err)
	}
	if err := Decode([]byte(in+`,"cpuMs":5,"memoryBytes":6}`), &process); err != nil || *process.CPUMs != 5 || *process.MemoryBytes != 6 {
		t.Errorf("%+v, %v", process, err)
	}
}

// Property: parameters of the methods under tether/ survive a round trip.
func FuzzDecodeTether(f *testing.F) {
	for _, seed := range []string{
		`{"processId":"p","sessionId":"s","signal":"HUP","onceId":"o","rows":1,"cols":2,"chunk":"YQ==","writeId":"w"}`,
		`{"processId":"p","sessionId":null,"signal":"interrupt","onceId":null,"rows":0,"cols":65535,"chunk":"","writeId":""}`,
		`{"processId":"p","sessionId":"s","pattern":"a|b","ignoreCase":true,"stream":"stderr","fromLine":1,"toLine":2,"maxMatches":3,"before":4,"after":5}`,
		`{"lines":[{"line":1,"seq":2,"stream":"pty","text":"x","match":true,"offset":3,"cut":true,"open":true}],"matches":1,"searched":9,"nextSeq":7,"firstSeq":2,"evicted":true,"truncated":"time","nextLine":4,"longLines":1}`,
		`{"clientName":"c","tether":{"ttlMs":1,"acks":true,"label":"l"}}`, `{}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	types := []reflect.Type{
		reflect.TypeFor[InitializeParams](), reflect.TypeFor[SignalParams](), reflect.TypeFor[SignalAnyParams](), reflect.TypeFor[ResizeParams](),
		reflect.TypeFor[CloseStdinParams](), reflect.TypeFor[WriteAnyParams](), reflect.TypeFor[TerminateAnyParams](), reflect.TypeFor[SessionEndParams](),
		reflect.TypeFor[StateParams](), reflect.TypeFor[SearchParams](), reflect.TypeFor[SearchResult](),
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse([]byte(request(string(data)))); err != nil || !json.Valid(data) {
			return
		}
		for _, typ := range types {
			first, second := reflect.New(typ).Interface(), reflect.New(typ).Interface()
			if Decode(data, first) != nil {
				continue
			}
			again, err := appendAny(nil, first)
			if err != nil {
				t.Fatal(err)
			}
			if err := Decode(again, second); err != nil || !reflect.DeepEqual(first, second) {
				t.Fatalf("%s, written as %s: %v\n%+v\n%+v", data, again, err, first, second)
			}
		}
	})
}

// Property: Decode does not panic on valid JSON, and values that it accepts survive a round trip.
func FuzzDecodeStart(f *testing.F) {
	f.Add([]byte(startParams))
	f.Add([]byte(start(`,"sandbox":` + workspaceWrite)))
	f.Add([]byte(start(`,"managedNetwork":{"loopbackPorts":[1]},"networkProxy":[1],"size":{"rows":1,"cols":2}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse([]byte(request(string(data)))); err != nil {
			return
		}
		if !json.Valid(data) { // the fuzzed part has closed the outer braces
			return
		}
		var first, second StartParams
		if Decode(data, &first) != nil {
			return
		}
		again, err := appendAny(nil, first)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(again, &second); err != nil {
			t.Fatalf("%s, written as %s: %v", data, again, err)
		}
		second.Cwd.native = first.Cwd.native // a plain path is sent as a URI
		if !reflect.DeepEqual(first, second) && len(data) < 1000 {
			t.Fatalf("%s, written as %s:\n%+v\n%+v", data, again, first, second)
		}
	})
}

// Each name of the table is a type of this package: the compiler does not check it.
func TestReferenceNamesAreTypes(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				types[spec.Name.Name] = true
			}
			return true
		})
	}
	for name := range referenceNames {
		if !types[name] {
			t.Errorf("the package has no type %s", name)
		}
	}
}
