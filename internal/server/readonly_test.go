//go:build unix

package server_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// looking are the methods that a read-only connection may use, with parameters for a process p of another session.
var looking = map[string]map[string]any{
	wire.MethodEnvironmentInfo: nil, wire.MethodEnvironmentStatus: nil, wire.MethodSessionList: nil, wire.MethodKeeperState: nil,
	wire.MethodProcessList: {}, wire.MethodProcessState: {}, wire.MethodProcessSearch: {}, wire.MethodProcessReadAny: {}, wire.MethodProcessObserve: {}, wire.MethodProcessDescribe: {},
	wire.MethodProcessUnobserve: {"observeId": 1},
	wire.MethodPortList:         {},
	wire.MethodSessionEnd:       {}, // only the own session
	wire.MethodConsoleCode:      {}, // only if the console is read-only, too
}

// A read-only connection can look at sessions and processes. Every request for anything else is refused, whatever its parameters.
func TestReadOnlyConnection(t *testing.T) {
	t.Parallel()
	s := startStreamServer(t, server.Config{})
	owner := tethertest.Dial(t, s.url)
	hello := owner.Handshake("")
	owner.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))

	watcher := s.streamOf(listen.Client{Peer: "watcher", ReadOnly: true})
	var mine wire.InitializeResult
	if m := watcher.Call("initialize", map[string]any{"clientName": "test"}); m.Error != nil || wire.Decode(m.Result, &mine) != nil || !mine.Tether.ReadOnly {
		t.Fatalf("initialize: %s", m.Raw)
	}
	watcher.Notify("initialized", nil)
	methods := server.Methods()
	if len(methods) < 40 {
		t.Fatalf("only %d methods", len(methods))
	}
	refused := func(m tethertest.Message) bool {
		return m.Error != nil && m.Error.Code == wire.CodeInvalidRequest && strings.Contains(string(m.Raw), `"data":{"reason":"readOnly"}`)
	}
	for _, method := range methods {
		params, allowed := looking[method]
		if params != nil {
			params = maps.Clone(params)
			params["sessionId"], params["processId"] = hello.Tether.PublicID, "p"
		}
		m := watcher.Call(method, params)
		if !allowed || method == wire.MethodSessionEnd || method == wire.MethodConsoleCode {
			if !refused(m) {
				t.Errorf("%s: %s", method, m.Raw)
			}
			continue
		}
		if m.Error != nil && method != wire.MethodKeeperState { // this server has no keeper
			t.Errorf("%s: %s", method, m.Raw)
		}
	}
	for method := range looking {
		if !slices.Contains(methods, method) {
			t.Errorf("there is no method %s", method)
		}
	}
	if m := s.streamOf(listen.Client{Peer: "thief", ReadOnly: true}).Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID}); m.Error == nil {
		t.Errorf("it resumes the session of another client: %s", m.Raw)
	}
	owner.Must("environment/status", nil, nil) // its connection is the same

	watcher.Close()
	again := s.streamOf(listen.Client{Peer: "watcher", ReadOnly: true})
	again.Handshake(mine.SessionID)
	again.Must(wire.MethodSessionEnd, map[string]any{"sessionId": mine.Tether.PublicID}, nil)
	owner.Terminate("p")
	owner.Finish("p", 0)
}
