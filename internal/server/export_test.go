package server

import (
	"maps"
	"reflect"
	"slices"

	"github.com/tetherexec/tether/internal/rpc"
)

// MethodsOfOtherSessions are the methods whose parameters name a session.
func MethodsOfOtherSessions() (names []string) {
	for name, m := range methods {
		if _, ok := reflect.TypeOf(m.params).Elem().FieldByName("SessionID"); ok {
			names = append(names, name)
		}
	}
	return names
}

// Methods are the methods after the handshake.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// FillOutgoing takes all room for answers that connections share. free gives it back.
func FillOutgoing(s *Server) (free func()) {
	if !s.memory.TryBuffer(rpc.MaxOutgoing) {
		panic("there are answers")
	}
	return func() { s.memory.FreeBuffer(rpc.MaxOutgoing) }
}
