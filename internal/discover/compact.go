package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// maxJSONDepth is how deep the part of a manifest that goes into an answer may nest.
const maxJSONDepth = 126

var errDepth = errors.New("JSON nests too deep")

// compact rewrites a JSON value as the reference does: in one line, with the keys
// in their order, the last value of a duplicate key, and characters unescaped where
// JSON allows it. Numbers keep their digits.
func compact(text json.RawMessage) (json.RawMessage, error) {
	if halfCharacter(text) {
		return nil, errHalfCharacter
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return compactValue(nil, d, 0)
}

func compactValue(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		if depth++; depth > maxJSONDepth {
			return nil, errDepth
		}
		if v == '{' {
			return compactObject(out, d, depth)
		}
		return compactArray(out, d, depth)
	case json.Number:
		return append(out, compactNumber(v.String())...), nil
	case string:
		return appendString(out, v), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	default:
		return append(out, "null"...), nil
	}
}

func compactArray(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	out = append(out, '[')
	for n := 0; d.More(); n++ {
		if n > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = compactValue(out, d, depth); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return append(out, ']'), err
}

func compactObject(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	var order []string
	values := map[string][]byte{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := compactValue(nil, d, depth)
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = value
	}
	out = append(out, '{')
	for n, name := range order {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, name), ':')
		out = append(out, values[name]...)
	}
	_, err := d.Token()
	return append(out, '}'), err
}

// compactNumber adds the sign of an exponent.
func compactNumber(s string) string {
	if s == "-0" {
		return "0"
	}
	i := strings.IndexAny(s, "eE")
	if i < 0 {
		return s
	}
	mantissa, exponent := s[:i], s[i+1:]
	if exponent[0] != '-' && exponent[0] != '+' {
		exponent = "+" + exponent
	}
	return mantissa + "e" + exponent
}

// appendString writes a JSON string. Unlike encoding/json it escapes only the
// characters that must be escaped.
func appendString(out []byte, s string) []byte {
	short := map[byte]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	out = append(out, '"')
	for _, c := range []byte(s) {
		switch letter, ok := short[c]; {
		case ok:
			out = append(out, '\\', letter)
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// halfCharacter reports whether a valid JSON text escapes half of a surrogate pair,
// which is no character.
func halfCharacter(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		first, ok := escape(text[i:])
		if !ok {
			i++ // the escaped character
			continue
		}
		i += len(`\u0000`) - 1
		if !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := escape(text[i+1:])
		if !ok || utf16.DecodeRune(first, second) == '\ufffd' {
			return true
		}
		i += len(`\u0000`)
	}
	return false
}

// escape reads \uXXXX.
func escape(text []byte) (rune, bool) {
	if len(text) < len(`\u0000`) || !slices.Equal(text[:2], []byte(`\u`)) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}
