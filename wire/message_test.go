package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParseForms(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Message
	}{
		{`{"id":1,"method":"x"}`, Message{Kind: KindRequest, ID: IntID(1), Method: "x"}},
		{" \r\n\t{\"id\" : 1 ,\n\"method\":\"process/start\", \"params\" : [ 1 ] } ",
			Message{Kind: KindRequest, ID: IntID(1), Method: "process/start", Params: RawValue("[ 1 ]")}},
		{`{"id":"","method":"x","params":null}`, Message{Kind: KindRequest, ID: StringID(""), Method: "x", Params: RawValue("null")}},
		{`{"id":"a\u00e9\n","method":"\u0078"}`, Message{Kind: KindRequest, ID: StringID("aé\n"), Method: "x"}},
		{`{"\u0069d":1,"method":"x"}`, Message{Kind: KindRequest, ID: IntID(1), Method: "x"}},
		{`{"id":-9223372036854775808,"method":"x"}`, Message{Kind: KindRequest, ID: IntID(-1 << 63), Method: "x"}},
		{`{"jsonrpc":"2.0","id":1,"method":"x","result":5,"error":6}`, Message{Kind: KindRequest, ID: IntID(1), Method: "x"}},
		{`{"id":1,"method":"x","trace":null}`, Message{Kind: KindRequest, ID: IntID(1), Method: "x"}},
		{`{"id":1,"method":"x","trace":{"traceparent":null,"tracestate":"a","more":1}}`, Message{Kind: KindRequest, ID: IntID(1), Method: "x"}},
		{`{"method":"initialized","params":{}}`, Message{Kind: KindNotification, Method: "initialized", Params: RawValue("{}")}},
		{`{"method":"x","trace":5}`, Message{Kind: KindNotification, Method: "x"}},
		{`{"id":3,"result":null,"error":{}}`, Message{Kind: KindResponse, ID: IntID(3), Result: RawValue("null")}},
		{`{"id":3,"error":{"code":-5,"message":"no","data":[1]}}`,
			Message{Kind: KindError, ID: IntID(3), Err: &Error{Code: -5, Message: "no", Data: RawValue("[1]")}}},
		{`{"id":3,"error":{"code":-5,"message":"no","data":null}}`, Message{Kind: KindError, ID: IntID(3), Err: &Error{Code: -5, Message: "no"}}},
		// Numbers in unknown members may be of any size.
		{`{"id":1,"method":"x","zz":99999999999999999999}`, Message{Kind: KindRequest, ID: IntID(1), Method: "x"}},
	} {
		got, err := Parse([]byte(tt.in))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Parse(%s) = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
	}
}

// request wraps params into a message whose params start at column 30.
func request(params string) string { return `{"id":1,"method":"x","params":` + params + `}` }

// parseErrors are texts taken from the reference.
var parseErrors = []struct{ in, want string }{
	{"", "EOF while parsing a value at line 1 column 0"},
	{"\r\n\t ", "EOF while parsing a value at line 2 column 2"},
	{"{", "EOF while parsing an object at line 1 column 1"},
	{`{"id"`, "EOF while parsing an object at line 1 column 5"},
	{`{"id":`, "EOF while parsing a value at line 1 column 6"},
	{`{"id":1`, "EOF while parsing an object at line 1 column 7"},
	{`{"id":1,`, "EOF while parsing a value at line 1 column 8"},
	{`{"id":1,}`, "trailing comma at line 1 column 9"},
	{`{"id" 1}`, "expected `:` at line 1 column 7"},
	{`{id:1}`, "key must be a string at line 1 column 2"},
	{`{,}`, "key must be a string at line 1 column 2"},
	{`{"a":1 "b":2}`, "expected `,` or `}` at line 1 column 8"},
	{`[1,2`, "EOF while parsing a list at line 1 column 4"},
	{`[1,]`, "trailing comma at line 1 column 4"},
	{`[,]`, "expected value at line 1 column 2"},
	{`[1 2]`, "expected `,` or `]` at line 1 column 4"},
	{`nul`, "EOF while parsing a value at line 1 column 3"},
	{`nulx`, "expected ident at line 1 column 4"},
	{"\ufeff{}", "expected value at line 1 column 1"},
	{"\u00a0{}", "expected value at line 1 column 1"},
	{"// c", "expected value at line 1 column 1"},
	{"NaN", "expected value at line 1 column 1"},
	{"\x00", "expected value at line 1 column 1"},

	{`"abc`, "EOF while parsing a string at line 1 column 4"},
	{"\"a\x01b\"", `control character (\u0000-\u001F) found while parsing a string at line 1 column 3`},
	{request("\"a\nb\""), `control character (\u0000-\u001F) found while parsing a string at line 2 column 0`},
	{`"a\x"`, "invalid escape at line 1 column 4"},
	{`"\u12"`, "EOF while parsing a string at line 1 column 6"},
	{`"\u12g4"`, "invalid escape at line 1 column 7"},
	{`"\ud800"`, "unexpected end of hex escape at line 1 column 8"},
	{`"\ud800\n"`, "unexpected end of hex escape at line 1 column 9"},
	{`"\ud800\u0041"`, "lone leading surrogate in hex escape at line 1 column 13"},
	{`"\udc00"`, "lone leading surrogate in hex escape at line 1 column 7"},
	{"\"\xff\"", "invalid unicode code point at line 1 column 3"},
	{"\"\xed\xa0\x80\"", "invalid unicode code point at line 1 column 5"},
	{request("\"\xff\\n\""), "invalid unicode code point at line 1 column 35"},
	{request("{\"\xff\":1}"), "invalid unicode code point at line 1 column 34"},
	{"\"0123456789abcdef\xff0123456789abcdef\"", "invalid unicode code point at line 1 column 35"},

	{"01", "invalid number at line 1 column 2"},
	{"-", "EOF while parsing a value at line 1 column 1"},
	{"-a", "invalid number at line 1 column 2"},
	{"1.", "EOF while parsing a value at line 1 column 2"},
	{"1.e1", "invalid number at line 1 column 3"},
	{"1e+", "EOF while parsing a value at line 1 column 3"},
	{"+1", "expected value at line 1 column 1"},
	{request("1ex"), "invalid number at line 1 column 33"},
	{request("1true"), "expected `,` or `}` at line 1 column 32"},

	{`{"a":1,"a":2}`, "duplicate JSON object key `a` at line 1 column 10"},
	{"{\"a\":1,\n \"a\":2}", "duplicate JSON object key `a` at line 2 column 4"},
	{`{"a":1,"\u0061":2}`, "duplicate JSON object key `a` at line 1 column 15"},
	{`{"a":{"b":1,"b":2}}`, "duplicate JSON object key `b` at line 1 column 15"},
	{`{"":1,"":2}`, "duplicate JSON object key `` at line 1 column 8"},
	{request(strings.Repeat("[", 127) + strings.Repeat("]", 127)), "recursion limit exceeded at line 1 column 157"},
	{strings.Repeat(`{"a":`, 128), "recursion limit exceeded at line 1 column 636"},
	{request("[" + strings.Repeat("1,", 262140) + "1]"),
		"JSON-RPC message exceeds the limit of 262144 JSON values at line 1 column 524311"},
	{request("[" + strings.Repeat("{},\n", 262140) + "1]"),
		"JSON-RPC message exceeds the limit of 262144 JSON values at line 262141 column 0"},
	{request("[" + strings.Repeat("1,", 262139) + `{"a":1}]`),
		"JSON-RPC message exceeds the limit of 262144 JSON values at line 1 column 524314"},

	{"1", "expected a JSON-RPC object"},
	{"[]", "expected a JSON-RPC object"},
	{"null", "expected a JSON-RPC object"},
	{"{}", "missing field `error`"},
	{"{} x", "missing field `error`"},
	{`{"id":1}`, "missing field `error`"},
	{request("1") + " x", "trailing characters at line 1 column 34"},
	{request("1") + "\n\n x", "trailing characters at line 3 column 2"},
	{`{"method":5}`, "invalid type: number, expected a string"},
	{`{"method":null,"result":1,"id":true}`, "invalid type: null, expected a string"},
	{`{"method":true,"id":1}`, "invalid type: boolean `true`, expected a string"},
	{`{"method":{},"id":1}`, "invalid type: map, expected a string"},
	{`{"method":"x","id":null}`, "data did not match any variant of untagged enum RequestId"},
	{`{"method":"x","id":1.0}`, "data did not match any variant of untagged enum RequestId"},
	{`{"method":"x","id":1e2}`, "data did not match any variant of untagged enum RequestId"},
	{`{"method":"x","id":true}`, "data did not match any variant of untagged enum RequestId"},
	{`{"method":"x","id":9223372036854775808}`, "data did not match any variant of untagged enum RequestId"},
	{`{"result":1}`, "missing field `id`"},
	{`{"error":{"code":1,"message":"x"}}`, "missing field `id`"},
	{`{"error":null}`, "invalid type: null, expected struct JSONRPCErrorError"},
	{`{"error":{},"id":1}`, "missing field `code`"},
	{`{"error":{"code":1},"id":1}`, "missing field `message`"},
	{`{"error":{"code":"a","message":"x"},"id":1}`, `invalid type: string "a", expected i64`},
	{`{"error":{"code":1.5,"message":"x"},"id":1}`, "invalid number"},
	{`{"id":3,"method":"x","trace":5}`, "invalid type: number, expected struct W3cTraceContext"},
	{`{"id":3,"method":"x","trace":{"traceparent":5}}`, "invalid type: number, expected a string"},
	{`{"trace":5,"id":null,"method":"x"}`, "invalid type: number, expected struct W3cTraceContext"}, // the first error counts
}

func TestParseErrors(t *testing.T) {
	for _, tt := range parseErrors {
		if m, err := Parse([]byte(tt.in)); err == nil || err.Error() != tt.want {
			t.Errorf("Parse(%.80q) = %+v, %v; want error %s", tt.in, m, err, tt.want)
		}
	}
}

func TestParseLimits(t *testing.T) {
	for name, in := range map[string]string{
		"depth":  request(strings.Repeat("[", 126) + strings.Repeat("]", 126)),
		"values": request("[" + strings.Repeat("1,", 262139) + "1]"),
	} {
		if _, err := Parse([]byte(in)); err != nil {
			t.Errorf("%s at the limit: %v", name, err)
		}
	}
}

// Objects with many keys are searched through an index; both ways of searching
// and the change between them must find a duplicate.
func TestParseDuplicateAmongMany(t *testing.T) {
	for _, n := range []int{2, linearKeys - 1, linearKeys, linearKeys + 1, linearKeys + 2, 1000} {
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf(`"k%d":{"k0":1,"k1":2}`, i))
		}
		if _, err := Parse([]byte(request("{" + strings.Join(keys, ",") + "}"))); err != nil {
			t.Errorf("%d keys: %v", n, err)
		}
		for _, again := range []int{0, n / 2, n - 1} {
			in := request("{" + strings.Join(append(keys[:n:n], keys[again]), ",") + "}")
			want := fmt.Sprintf("duplicate JSON object key `k%d`", again)
			if _, err := Parse([]byte(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%d keys, key %d twice: %v", n, again, err)
			}
		}
	}
}

func TestParseAliasesData(t *testing.T) {
	data := []byte(`{"id":1,"method":"x","params":{"a":1}}`)
	m, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-3] = '2'
	if string(m.Params) != `{"a":2}` || cap(m.Params) != len(m.Params) {
		t.Errorf("Params = %s (cap %d) after a change of the data", m.Params, cap(m.Params))
	}
}

func TestID(t *testing.T) {
	if one := IntID(1); one == StringID("1") || one != IntID(int64(len("1"))) || (ID{}) != IntID(0) {
		t.Error("ids compare wrongly")
	}
	for id, want := range map[ID]string{IntID(-1): "-1", StringID("a\"b"): `"a\"b"`, StringID(""): `""`} {
		if got := string(id.AppendJSON(nil)); got != want {
			t.Errorf("AppendJSON = %s, want %s", got, want)
		}
	}
	if n, ok := IntID(7).Int(); n != 7 || !ok {
		t.Error("Int of an integer id")
	}
	if _, ok := StringID("7").Int(); ok {
		t.Error("Int of a string id")
	}
	if IntID(7).String() != "7" || StringID("a b").String() != "a b" {
		t.Error("String")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{smallMessage, request(startParams), `{"id":"\ud83d\ude00","result":[1.5e-3,-0,true,null]}`,
		`{"error":{"code":1,"message":"é"},"id":-1}`, "{\"a\":\"\xff\"}", `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("Parse accepts a text that is not JSON: %q", data)
		}
		for _, part := range []RawValue{m.Params, m.Result} {
			if part != nil && !json.Valid(part) {
				t.Fatalf("part %q of %q is not JSON", part, data)
			}
		}
		var generic map[string]any
		if err := json.Unmarshal(data, &generic); err != nil {
			t.Fatal(err)
		}
		if name, ok := generic["method"]; ok && name != m.Method {
			t.Fatalf("method %q, want %q", m.Method, name)
		}
		if id, ok := generic["id"].(string); ok && StringID(id) != m.ID {
			t.Fatalf("id %q, want %q", m.ID, id)
		}
	})
}
