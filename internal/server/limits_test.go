//go:build unix

package server_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// requests has, for every method with parameters, valid parameters and the type
// that they are decoded into.
var requests = map[string]struct {
	params any
	valid  string
}{
	wire.MethodInitialize: {wire.InitializeParams{}, `{"clientName":"x","tether":{"ttlMs":1000,"acks":false,"label":"l"}}`},
	wire.MethodProcessStart: {wire.StartParams{}, `{"processId":"p","argv":["true"],"cwd":"/","env":{},"tty":false,
		"metadata":{"threadId":"t"},"envPolicy":{"inherit":"core","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":[]},
		"managedNetwork":{"loopbackPorts":[]},
		"networkProxy":{"proxy":{"enabled":true,"enableSocks5":true,"enableSocks5Udp":true,"allowUpstreamProxy":false,"dangerouslyAllowAllUnixSockets":false,
			"mode":"full","domains":{},"unixSockets":{},"allowLocalBinding":false},"auditMetadata":{},"policyDecisionTimeoutMs":1000},
		"shellSnapshot":{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}},"size":{"rows":1,"cols":1},"limits":{"openFiles":64}}`},
	wire.MethodProcessRead:       {wire.ReadParams{}, `{"processId":"missing"}`},
	wire.MethodProcessWrite:      {wire.WriteParams{}, `{"processId":"missing","chunk":"","writeId":"w"}`},
	wire.MethodProcessSignal:     {wire.SignalParams{}, `{"processId":"missing","signal":"interrupt"}`},
	wire.MethodProcessTerminate:  {wire.ProcessParams{}, `{"processId":"missing"}`},
	wire.MethodProcessResize:     {wire.ResizeParams{}, `{"processId":"missing","rows":1,"cols":1}`},
	wire.MethodProcessCloseStdin: {wire.CloseStdinParams{}, `{"processId":"missing"}`},
	wire.MethodProcessSignalAny:  {wire.SignalAnyParams{}, `{"processId":"missing","signal":"HUP"}`},
	wire.MethodProcessList:       {wire.ListParams{}, `{}`},
	wire.MethodProcessState:      {wire.StateParams{}, `{"processId":"missing"}`},
	wire.MethodProcessSearch:     {wire.SearchParams{}, `{"processId":"missing"}`},
	wire.MethodProcessReadAny:    {wire.ReadAnyParams{}, `{"processId":"missing","maxBytes":1}`},
	wire.MethodProcessObserve:    {wire.ObserveParams{}, `{"sessionId":"missing","processId":"missing"}`},
	wire.MethodProcessUnobserve:  {wire.UnobserveParams{}, `{"observeId":1}`},

	wire.MethodProcessDescribe:     {wire.DescribeParams{}, `{"processId":"missing"}`},
	wire.MethodProcessTakeControl:  {wire.ControlParams{}, `{"processId":"missing"}`},
	wire.MethodProcessGiveControl:  {wire.ControlParams{}, `{"processId":"missing"}`},
	wire.MethodProcessWriteAny:     {wire.WriteAnyParams{}, `{"processId":"missing","chunk":"","writeId":"w"}`},
	wire.MethodProcessTerminateAny: {wire.TerminateAnyParams{}, `{"processId":"missing"}`},
}

// A variation replaces one member of the parameters.
type variation struct {
	path  []string
	value string // "": removed
	bad   bool
}

// variations returns, for every member of a struct, all wrong values.
func variations(path []string, typ reflect.Type) (list []variation) {
	for _, field := range reflect.VisibleFields(typ) {
		name := append(append([]string(nil), path...), strings.Split(field.Tag.Get("json"), ",")[0])
		optional := field.Type.Kind() == reflect.Pointer
		lenient := optional || field.Tag.Get("wire") == "default"
		list = append(list, variation{name, "", !lenient}, variation{name, "null", !optional})
		t := field.Type
		if optional {
			t = t.Elem()
		}
		for _, wrong := range wrongValues(t) {
			list = append(list, variation{name, wrong, true})
		}
		if t.Kind() == reflect.Struct && (optional || t == reflect.TypeFor[wire.NetworkProxySettings]() || t == reflect.TypeFor[wire.AuditMetadata]()) && t.NumField() > 0 && t != reflect.TypeFor[wire.Sandbox]() {
			list = append(list, variations(name, t)...)
		}
	}
	return list
}

func wrongValues(t reflect.Type) []string {
	number := []string{`-1`, `1.0`, `1e3`, `18446744073709551616`, `"1"`, `true`, `{}`}
	switch {
	case t == reflect.TypeFor[wire.RawValue]():
		return nil // every value is valid
	case t == reflect.TypeFor[wire.Base64]():
		return []string{`7`, `"%"`, `"YQ"`, `"YR=="`, `[97]`}
	case t == reflect.TypeFor[wire.Cwd](), t == reflect.TypeFor[wire.PathURI]():
		return []string{`7`, `""`, `"relative"`, `"http://x/"`, `["/"]`}
	case t == reflect.TypeFor[wire.Inherit](), t == reflect.TypeFor[wire.SignalNamed](), t == reflect.TypeFor[wire.SignalAny](), t == reflect.TypeFor[wire.NetworkMode]():
		return []string{`7`, `""`, `"nonsense"`, `false`}
	}
	switch t.Kind() {
	case reflect.String:
		return []string{`7`, `true`, `["x"]`, `{}`}
	case reflect.Bool:
		return []string{`1`, `"true"`, `[true]`, `{}`}
	case reflect.Int64:
		return number[1:]
	case reflect.Uint16:
		return append(number, `65536`)
	case reflect.Uint64:
		return number
	case reflect.Float64:
		return []string{`-1`, `0`, `1e999`, `"1"`, `true`, `{}`}
	case reflect.Slice:
		return []string{`7`, `"x"`, `{}`, `[null]`, `[{}]`}
	case reflect.Map:
		return []string{`7`, `"x"`, `{"a":7}`, `{"a":null}`}
	case reflect.Struct:
		return []string{`7`, `"x"`, `true`}
	}
	panic("no wrong values known for " + t.String())
}

// vary returns the parameters with one member changed.
func vary(t *testing.T, valid string, v variation) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(valid), &members); err != nil {
		t.Fatal(err)
	}
	name := v.path[0]
	switch {
	case len(v.path) > 1:
		v.path = v.path[1:]
		members[name] = json.RawMessage(vary(t, string(members[name]), v))
	case v.value == "":
		delete(members, name)
	default:
		members[name] = json.RawMessage(v.value)
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryParameterWrongInEveryWay(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	id := 1000
	ask := func(method, params string) tethertest.Message {
		id++
		c.Send(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, id, method, params))
		return c.Answer(int64(id))
	}
	for method, request := range requests {
		if m := ask(method, request.valid); m.Error != nil && m.Error.Code == -32602 {
			t.Errorf("%s is refused as it should be: %s", method, m.Raw)
		}
		for _, params := range []string{`null`, `7`, `"x"`, `true`} {
			if m := ask(method, params); m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s %s: %s", method, params, m.Raw)
			}
		}
		for _, v := range variations(nil, reflect.TypeOf(request.params)) {
			params := vary(t, request.valid, v)
			m := ask(method, params)
			if refused := m.Error != nil && m.Error.Code == -32602; refused != v.bad {
				t.Errorf("%s with %s = %q: %.200s", method, strings.Join(v.path, "."), v.value, m.Raw)
			}
		}
	}
	for _, method := range []string{wire.MethodEnvironmentInfo, wire.MethodEnvironmentStatus, wire.MethodSessionList} {
		for _, params := range []string{`7`, `"x"`, `[]`, `[1]`, `{"a":1}`} {
			if m := ask(method, params); (m.Error == nil || m.Error.Code != -32602) && !strings.HasPrefix(params, "{") {
				t.Errorf("%s %s: %s", method, params, m.Raw)
			}
		}
	}
	c.Must("environment/status", nil, nil)
	c.Close()
	s.Stop()
	check()
}

func TestHugeValues(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	huge := strings.Repeat("x", 200<<10)
	for name, more := range map[string]map[string]any{
		"argv": {"argv": []string{"true", huge}}, "env": {"env": map[string]string{"A": huge}},
		"arg0": {"arg0": huge}, "cwd": {"cwd": "/" + huge}, "program": {"argv": []string{huge}},
	} {
		if m := c.Call("process/start", tethertest.Command("p", []string{"true"}, more)); m.Error == nil || m.Error.Code != -32603 {
			t.Errorf("%s: %.300s", name, m.Raw)
		}
	}
	c.Start(tethertest.Command(huge, []string{"true"}, nil)) // a process id may be any text
	c.Finish(huge, 0)
	for _, wait := range []uint64{1<<64 - 1, 1 << 62} {
		c.Read(huge, 0, map[string]any{"waitMs": wait, "maxBytes": uint64(1<<64 - 1)})
	}
	c.Close()
	s.Stop()
	check()
}

func TestBinaryFrames(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.WS().WriteFrame(0x80|tethertest.OpBinary, true, []byte(`{"id":77,"method":"environment/status"}`))
	if m := c.Answer(77); string(m.Result) != `{"status":"ready"}` {
		t.Errorf("binary frame: %s", m.Raw)
	}
	c.WS().WriteFrame(0x80|tethertest.OpBinary, true, []byte{0xff, 0x00})
	if m := c.Answer(-1); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("binary nonsense: %s", m.Raw)
	}
	c.WS().WriteFrame(tethertest.OpText, true, []byte(`{"id":78,"method":`))
	c.WS().WriteFrame(0x80|tethertest.OpContinuation, true, []byte(`"environment/status"}`))
	if m := c.Answer(78); string(m.Result) != `{"status":"ready"}` {
		t.Errorf("fragments: %s", m.Raw)
	}
}

// A violation ends only its own connection, with a reason, and detaches the
// session.
func TestViolationsEndTheConnection(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{})
	bystander := tethertest.Connect(t, s.URL)
	for name, violate := range map[string]func(c *tethertest.Client){
		"unexpected notification": func(c *tethertest.Client) { c.Notify("process/read", nil) },
		"unasked response":        func(c *tethertest.Client) { c.Send(`{"id":1,"result":{}}`) },
		"bad ack":                 func(c *tethertest.Client) { c.Notify("tether/ack", map[string]any{"processId": 7}) },
		"unmasked frame": func(c *tethertest.Client) {
			c.WS().WriteFrame(0x80|tethertest.OpText, false, []byte(`{}`))
		},
		"invalid UTF-8": func(c *tethertest.Client) { c.Send("\xff") },
		"oversized": func(c *tethertest.Client) {
			header := binary.BigEndian.AppendUint64([]byte{0x80 | tethertest.OpText, 0x80 | 127}, 64<<20+1)
			c.SendBytes(append(header, 0, 0, 0, 0)) // the rest is not needed
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := tethertest.Dial(t, s.URL)
			hello := c.Handshake("")
			violate(c)
			if err := c.Ended(); err == nil {
				t.Error("the connection has not ended")
			} else if closed, ok := err.(*tethertest.CloseError); !ok || closed.Reason == "" {
				t.Errorf("ended without a reason: %v", err)
			}
			tethertest.Dial(t, s.URL).Handshake(hello.SessionID)
		})
	}
	early := tethertest.Dial(t, s.URL)
	early.Notify("initialized", nil)
	if err := early.Ended(); err == nil {
		t.Error("initialized before initialize")
	}
	bystander.Must("environment/status", nil, nil)
	bystander.Close()
	s.Stop()
	check()
}

func TestTenThousandPipelinedRequests(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	const n = 10_000
	for range n {
		c.Send(`{"id":"same","method":"environment/status"}`) // ids need not differ
	}
	for i := range n {
		if m := c.Next(); string(m.ID) != `"same"` || m.Error != nil {
			t.Fatalf("answer %d: %s", i, m.Raw)
		}
	}
	first := c.Ask("environment/status", nil)
	for range 399 {
		c.Ask("environment/status", nil)
	}
	for id := first; id < first+400; id++ {
		if m := c.Next(); string(m.ID) != fmt.Sprint(id) {
			t.Fatalf("answer %s comes before %d", m.ID, id)
		}
	}
}

// Polls above the limit are answered at once, and waiting polls delay no other
// request.
func TestManyPolls(t *testing.T) {
	const maxPolls, n = 1024, 1100
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Command("p", []string{"sleep", "60"}, nil))
	for range n {
		c.Ask("process/read", map[string]any{"processId": "p", "waitMs": 60_000})
	}
	isAnswer := func(m tethertest.Message) bool { return m.Result != nil }
	for range n - maxPolls {
		c.Await("a poll above the limit", isAnswer)
	}
	c.Must("environment/status", nil, nil)
	c.Terminate("p")
	for range maxPolls {
		c.Await("a poll", isAnswer)
	}
}

func TestSilentClient(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{})
	silent := tethertest.Dial(t, s.URL)
	c := tethertest.Connect(t, s.URL)
	c.Must("environment/status", nil, nil)
	s.Stop()
	for _, c := range []*tethertest.Client{silent, c} {
		if closed, ok := c.Ended().(*tethertest.CloseError); !ok || closed.Code != 1001 {
			t.Errorf("ended with %v", c.Ended())
		}
		c.Close()
	}
	check()
}

// startNonReader connects a client that never reads and starts a process that never
// stops printing.
func startNonReader(t *testing.T, url string) *tethertest.WS {
	t.Helper()
	ws, err := tethertest.DialWS(context.Background(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	start, err := json.Marshal(tethertest.Command("endless", []string{"cat", "/dev/zero"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{
		`{"id":1,"method":"initialize","params":{"clientName":"deaf"}}`, `{"method":"initialized"}`,
		`{"id":2,"method":"process/start","params":` + string(start) + `}`,
	} {
		if err := ws.WriteText([]byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	return ws
}

func TestClientThatNeverReads(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{SpoolLimit: 4 << 20, Retain: 1 << 20})
	ws := startNonReader(t, s.URL)
	c := tethertest.Connect(t, s.URL)
	inState := func(met func(tethertest.Listed) bool) {
		t.Helper()
		tethertest.Eventually(t, func() error {
			p, err := c.Listed("endless")
			if err == nil && !met(p) {
				err = fmt.Errorf("process is %+v", p)
			}
			return err
		})
	}
	inState(func(p tethertest.Listed) bool { return p.Blocked })
	c.Start(tethertest.Shell("mine", "head -c 6000000 /dev/zero", nil))
	if out := c.Finish("mine", 0); len(out.Text["stdout"]) != 6_000_000 {
		t.Errorf("another client got %d bytes", len(out.Text["stdout"]))
	}
	if err := ws.WriteText([]byte(`{"id":3,"method":"process/terminate","params":{"processId":"endless"}}`)); err != nil {
		t.Fatal(err)
	}
	inState(func(p tethertest.Listed) bool { return p.State == "closed" })
	ws.Close()
	c.Close()
	s.Stop()
	check()
}

// A client that asks for large answers and reads none costs no more memory than
// MaxAnswerBytes.
func TestAnswersInFlightAreBounded(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{SpoolLimit: 4 << 20})
	ws := startNonReader(t, s.URL)
	c := tethertest.Connect(t, s.URL)
	tethertest.Eventually(t, func() error {
		if p, err := c.Listed("endless"); err != nil || !p.Blocked {
			return fmt.Errorf("process is %+v, %v", p, err)
		}
		return nil
	})
	p, _ := c.Listed("endless")
	before := heapInUse()
	for i := range 2000 { // each asks for the newest event, 64 KiB
		message := fmt.Sprintf(`{"id":%d,"method":"process/read","params":{"processId":"endless","afterSeq":%d}}`, 10+i, p.NextSeq-2)
		if err := ws.WriteText([]byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	ws.WriteText([]byte(`{"id":3,"method":"process/terminate","params":{"processId":"endless"}}`)) // the server reads it after all of the requests before it
	tethertest.Eventually(t, func() error {
		if p, err := c.Listed("endless"); err != nil || p.State != "closed" {
			return fmt.Errorf("process is %+v, %v", p, err)
		}
		return nil
	})
	if grown := int64(heapInUse()) - int64(before); grown > 100<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
