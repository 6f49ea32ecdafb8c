package server

import (
	"reflect"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// wire.ExecCalls and the table of methods describe the same protocol: the schema is generated from the former.
func TestMethodsAreInTheSchema(t *testing.T) {
	const remedy = "in wire/calls.go, and run `make schema`"
	calls := map[string]wire.Call{}
	for _, call := range wire.ExecCalls {
		if _, twice := calls[call.Name]; twice {
			t.Errorf("wire.ExecCalls has two rows for %s: remove one %s", call.Name, remedy)
		}
		calls[call.Name] = call
	}
	for name, m := range methods {
		call, known := calls[name]
		switch params := reflect.TypeOf(m.params); {
		case !known:
			t.Errorf("the server has the method %s, and wire.ExecCalls has no row for it: add one with the parameters %s %s", name, params, remedy)
		case call.From != wire.FromClient || call.IsNotification():
			t.Errorf("%s is a request of the client: correct its row %s", name, remedy)
		case reflect.TypeOf(call.Params) != params:
			t.Errorf("%s has the parameters %s in the server, and %T in wire.ExecCalls: correct its row %s", name, params, call.Params, remedy)
		}
	}
	for name, call := range calls {
		if _, known := methods[name]; !known && call.From == wire.FromClient && !call.IsNotification() && name != wire.MethodInitialize {
			t.Errorf("wire.ExecCalls has a row for the request %s, which the server does not know", name)
		}
	}
}
