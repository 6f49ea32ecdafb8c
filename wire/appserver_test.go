package wire

import (
	"reflect"
	"strings"
	"testing"
)

func TestDecodeAppParams(t *testing.T) {
	var p ProcessSpawnParams
	if err := DecodeAppParams([]byte(`{"command":["a"],"processHandle":"h","cwd":"/a/../b/./"}`), &p); err != nil {
		t.Fatal(err)
	}
	if p.Cwd != "/b" || p.OutputBytesCap.Wish != Default || p.TimeoutMs.Wish != Default || p.Env != nil || p.Size != nil {
		t.Errorf("got %+v", p)
	}
	value := "v"
	p = ProcessSpawnParams{}
	if err := DecodeAppParams([]byte(`{"command":[],"processHandle":"","cwd":"/","tty":true,"outputBytesCap":null,"timeoutMs":-5,
		"env":{"A":"v","B":null},"size":{"rows":1,"cols":65535},"unknown":{}}`), &p); err != nil {
		t.Fatal(err)
	}
	want := ProcessSpawnParams{
		Command: []string{}, Cwd: "/", TTY: true, OutputBytesCap: OutputCap{Wish: NoLimit}, TimeoutMs: TimeoutMs{Given, -5},
		Env: EnvOverrides{"A": &value, "B": nil}, Size: &ProcessTerminalSize{1, 65535},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v", p)
	}
	if err := DecodeAppParams([]byte(`{"command":[],"processHandle":"","cwd":"/","outputBytesCap":18446744073709551615}`), &p); err != nil || p.OutputBytesCap.Bytes != 1<<63-1 {
		t.Errorf("got %+v, %v", p.OutputBytesCap, err)
	}
}

func TestDecodeAppParamsRefuses(t *testing.T) {
	for params, want := range map[string]string{
		``:                      "missing field `params`",
		`null`:                  "missing field `params`",
		`[]`:                    "invalid type: sequence, expected struct ProcessSpawnParams",
		`5`:                     "invalid type: integer `5`, expected struct ProcessSpawnParams",
		`{}`:                    "missing field `command`",
		`{"command":["a"]}`:     "missing field `processHandle`",
		`{"cwd":5}`:             "invalid type: integer `5`, expected path string",
		`{"cwd":"a"}`:           "AbsolutePathBuf deserialized without a base path",
		`{"timeoutMs":1.5}`:     "invalid type: floating point `1.5`, expected i64",
		`{"timeoutMs":"1"}`:     `invalid type: string "1", expected i64`,
		`{"outputBytesCap":-1}`: "invalid value: integer `-1`, expected usize",
		`{"outputBytesCap":99999999999999999999}`: "invalid value: integer `99999999999999999999`, expected usize",
		`{"size":{"rows":70000}}`:                 "invalid value: integer `70000`, expected u16",
		`{"size":{"rows":1}}`:                     "missing field `cols`",
		`{"env":{"A":1}}`:                         "invalid type: integer `1`, expected a string",
		`{"env":[]}`:                              "invalid type: sequence, expected a map",
		`{"tty":null}`:                            "invalid type: null, expected a boolean",
	} {
		err := DecodeAppParams([]byte(params), new(ProcessSpawnParams))
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", params, err, want)
		}
	}
}

// Property: parameters that Parse accepts are decoded, or refused with a text. Decoded values are
// within their ranges.
func FuzzDecodeAppParams(f *testing.F) {
	for _, seed := range []string{
		`{"command":["a"],"processHandle":"h","cwd":"/"}`, `{"outputBytesCap":null,"timeoutMs":9223372036854775807}`, `{"env":{"A":null}}`,
		`{"size":{"rows":65536,"cols":-0}}`, `{"cwd":"/a/../.."}`, `{"processHandle":"\ud800"}`, `{"deltaBase64":"QQ==","closeStdin":true}`,
		`{"clientInfo":{"name":"a","version":"1"},"capabilities":{"optOutNotificationMethods":["x"]}}`, `[1]`, `null`, ` {} `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		if _, err := Parse([]byte(`{"id":1,"method":"m","params":` + string(params) + `}`)); err != nil {
			t.Skip()
		}
		for _, v := range []any{new(AppInitializeParams), new(ProcessSpawnParams), new(ProcessWriteStdinParams), new(ProcessResizePtyParams), new(ProcessKillParams)} {
			if err := DecodeAppParams(params, v); err != nil && err.Error() == "" {
				t.Errorf("%T: an error without text", v)
			} else if p, ok := v.(*ProcessSpawnParams); ok && err == nil && (p.OutputBytesCap.Bytes < 0 || !strings.HasPrefix(string(p.Cwd), "/")) {
				t.Errorf("got %+v", p)
			}
		}
	})
}
