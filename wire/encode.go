package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Encoding is the reverse of decoding: Decode accepts all text that is appended here. A nil
// slice is an empty list and a nil map an empty object, because no field may be null unless it
// is a pointer. Maps are written in the order of their keys. Types with a method
// AppendJSON([]byte) []byte write themselves.

type appender interface{ AppendJSON([]byte) []byte }

// AppendResult appends the answer {"id":…,"result":…}.
func AppendResult(b []byte, id ID, result any) ([]byte, error) {
	b = append(b, `{"id":`...)
	b = id.AppendJSON(b)
	b = append(b, `,"result":`...)
	b, err := appendAny(b, result)
	return append(b, '}'), err
}

// AppendError appends the answer {"error":{"code":…,"message":…},"id":…}.
func AppendError(b []byte, id ID, e *Error) []byte {
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	b = append(b, `,"message":`...)
	b = AppendString(b, e.Message)
	if len(e.Data) > 0 {
		b = append(b, `,"data":`...)
		b = append(b, e.Data...)
	}
	b = append(b, `},"id":`...)
	b = id.AppendJSON(b)
	return append(b, '}')
}

// AppendNotification appends {"method":…,"params":…}; nil params are left out.
func AppendNotification(b []byte, method string, params any) ([]byte, error) {
	b = append(b, `{"method":`...)
	return appendCall(b, method, params)
}

// AppendRequest appends {"id":…,"method":…,"params":…}; nil params are left out.
func AppendRequest(b []byte, id ID, method string, params any) ([]byte, error) {
	b = append(b, `{"id":`...)
	b = id.AppendJSON(b)
	b = append(b, `,"method":`...)
	return appendCall(b, method, params)
}

func appendCall(b []byte, method string, params any) ([]byte, error) {
	b = AppendString(b, method)
	if params == nil {
		return append(b, '}'), nil
	}
	b = append(b, `,"params":`...)
	b, err := appendAny(b, params)
	return append(b, '}'), err
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0 // of the bytes that are still to be copied
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i-1]...)
		start = i
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// AppendValue appends a value of this package that consists of strings, numbers, lists and structs.
func AppendValue(b []byte, v any) []byte {
	b, err := appendAny(b, v)
	if err != nil {
		panic(err) // such values can be encoded
	}
	return b
}

func appendAny(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case RawValue:
		return appendRaw(b, v), nil
	}
	return appendValue(b, reflect.ValueOf(v))
}

func appendRaw(b []byte, raw RawValue) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	return append(b, raw...)
}

func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return appendValue(b, v.Elem())
	case t.Implements(reflect.TypeFor[appender]()):
		return v.Interface().(appender).AppendJSON(b), nil
	case t == reflect.TypeFor[RawValue]():
		return appendRaw(b, v.Bytes()), nil
	}
	switch t.Kind() {
	case reflect.String:
		return AppendString(b, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			b = append(b, '"')
			b = base64.StdEncoding.AppendEncode(b, v.Bytes())
			return append(b, '"'), nil
		}
		return appendList(b, v)
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return appendMap(b, v)
		}
	case reflect.Struct:
		return appendStruct(b, v)
	}
	return appendOther(b, v.Interface())
}

// appendOther leaves rare kinds, such as floats, to the standard library.
func appendOther(b []byte, v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return b, fmt.Errorf("encode %T: %w", v, err)
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), nil
}

func appendList(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, v reflect.Value) (_ []byte, err error) {
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, key.String()), ':')
		if b, err = appendValue(b, v.MapIndex(key)); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// An outField is one row of a struct's table for encoding.
type outField struct {
	prefix    string // `"name":`
	index     int
	omitEmpty bool
}

var outFields sync.Map // reflect.Type → []outField

func outFieldsOf(t reflect.Type) []outField {
	if f, ok := outFields.Load(t); ok {
		return f.([]outField)
	}
	var fields []outField
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields = append(fields, outField{
			prefix:    string(AppendString(nil, name)) + ":",
			index:     i,
			omitEmpty: options == "omitempty",
		})
	}
	f, _ := outFields.LoadOrStore(t, fields)
	return f.([]outField)
}

func appendStruct(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	empty := len(b)
	for _, f := range outFieldsOf(v.Type()) {
		value := v.Field(f.index)
		if f.omitEmpty && isEmpty(value) {
			continue
		}
		if len(b) > empty {
			b = append(b, ',')
		}
		b = append(b, f.prefix...)
		if b, err = appendValue(b, value); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}
