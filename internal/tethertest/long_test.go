package tethertest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// Messages with long strings are decoded as without the short cut.
func TestLongStrings(t *testing.T) {
	long := strings.Repeat("QUJD", longString)
	for name, text := range map[string]string{
		"short":     `{"method":"process/output","params":{"chunk":"QUJD"}}`,
		"output":    `{"method":"process/output","params":{"processId":"p","seq":7,"chunk":"` + long + `","stream":"stdout"}}`,
		"several":   `{"id":7,"result":{"chunks":["` + long + `","x","` + long + `x"],"` + long + `":{}}}`,
		"escapes":   `{"id":"` + long + `\"","result":["\\","` + long + `\\","\"` + long + `","\\\"{",{"a":"` + long + `"}]}`,
		"error":     `{"id":1,"error":{"code":-1,"message":"` + long + `"}}`,
		"id":        `{"id":"` + long + `","result":{}}`,
		"method":    `{"method":"` + long + `","params":["` + long + `"]}`,
		"no end":    `{"method":"` + long,
		"escaped":   `{"method":"` + long + `\"`,
		"truncated": `{"method":"` + long + `"`,
		"no JSON":   `"` + long + `" "`,
	} {
		var got, want Message
		gotErr, wantErr := decodeMessage([]byte(text), &got), json.Unmarshal([]byte(text), &want)
		if (gotErr == nil) != (wantErr == nil) {
			t.Errorf("%s: error %v instead of %v", name, gotErr, wantErr)
		} else if gotErr == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %.300v instead of %.300v", name, got, want)
		}
		if gotErr != nil || got.Method != "process/output" {
			continue
		}
		var e, plain Event
		gotErr, wantErr = decodeEvent(got.Params, &e), json.Unmarshal(want.Params, &plain)
		if gotErr != nil || wantErr != nil || !reflect.DeepEqual(e, plain) {
			t.Errorf("%s: event %.100v (%v) instead of %.100v (%v)", name, e, gotErr, plain, wantErr)
		}
	}
}
