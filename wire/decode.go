package wire

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Decode decodes params, the text of one JSON value that Parse has accepted,
// into the value that v points to. Absent params (nil) count as null. The rules
// are in protocol.go. The text of an error is the message for the peer, to be sent
// with CodeInvalidParams. Wrong members are reported in the order of the text,
// missing ones last. Raw values alias params.
func Decode(params []byte, v any) error {
	if len(params) == 0 {
		params = []byte("null")
	}
	d := decoder{scanner: scanner{data: params}}
	d.space()
	if err := d.into(v); err != nil {
		return err
	}
	return d.end()
}

// A decoder stands at the first byte of the value to decode.
type decoder struct {
	scanner
	// tagged: inside a tagged union, where the reference's errors describe numbers
	// differently. tagName is the member that tells the variants apart, until the
	// struct decoder of the variant has taken it.
	tagged  bool
	tagName string

	// draft: inside the draft form of a sandbox. Plain absolute paths count as
	// URIs, and the name of the first unknown member is kept in unknown.
	draft   bool
	unknown []byte
}

// into decodes the next value into the value that v points to.
func (d *decoder) into(v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic(fmt.Sprintf("wire: decode into %T", v))
	}
	return decoderOf(target.Type().Elem())(d, target.Elem())
}

// A wireDecoder decodes itself.
type wireDecoder interface{ decodeWire(*decoder) error }

// An enum is a string type with a fixed set of values.
type enum interface{ variants() []string }

type decodeFunc func(*decoder, reflect.Value) error

var decoders sync.Map // reflect.Type → decodeFunc

func decoderOf(t reflect.Type) decodeFunc {
	if f, ok := decoders.Load(t); ok {
		return f.(decodeFunc)
	}
	f, _ := decoders.LoadOrStore(t, newDecoder(t))
	return f.(decodeFunc)
}

func newDecoder(t reflect.Type) decodeFunc {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[wireDecoder]()) {
		return func(d *decoder, v reflect.Value) error {
			return v.Addr().Interface().(wireDecoder).decodeWire(d)
		}
	}
	if t.Kind() == reflect.String && t.Implements(reflect.TypeFor[enum]()) {
		return enumDecoder(reflect.Zero(t).Interface().(enum).variants())
	}
	switch t {
	case reflect.TypeFor[RawValue]():
		return decodeRaw
	case reflect.TypeFor[[]string]():
		return decodeStrings
	case reflect.TypeFor[map[string]string]():
		return decodeStringMap
	}
	switch t.Kind() {
	case reflect.Pointer:
		return pointerDecoder(t)
	case reflect.Struct:
		return structDecoder(t)
	case reflect.Slice:
		return sliceDecoder(t)
	case reflect.String:
		return func(d *decoder, v reflect.Value) error {
			s, err := d.text()
			if err == nil {
				v.SetString(s)
			}
			return err
		}
	case reflect.Bool:
		return decodeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intDecoder(t)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintDecoder(t, "u"+strconv.Itoa(t.Bits()))
	}
	panic("wire: cannot decode into " + t.String())
}

func missingField(name string) error { return errors.New("missing field `" + name + "`") }

var errNumber = errors.New("invalid number")

// mismatch is the error of a next value that has another type than expected.
func (d *decoder) mismatch(expected string) error {
	start := d.pos
	c := d.peek()
	if err := d.value(); err != nil {
		return err
	}
	text := string(d.data[start:d.pos])
	var found string
	switch {
	case c == 'n':
		found = "null"
	case c == 't' || c == 'f':
		found = "boolean `" + text + "`"
	case c == '"':
		d.pos = start
		s, err := d.text()
		if err != nil {
			return err
		}
		found = "string " + quote(string(clip([]byte(s))))
	case c == '[':
		found = "sequence"
	case c == '{':
		found = "map"
	case !d.tagged:
		found = "number"
	case isInteger(text):
		found = "integer `" + text + "`"
	default:
		found = "floating point `" + text + "`"
	}
	return errors.New("invalid type: " + found + ", expected " + expected)
}

// isInteger reports whether a number is written without fraction or exponent.
func isInteger(text string) bool { return !strings.ContainsAny(text, ".eE") }

// quote writes s as the reference quotes text in errors.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == 0:
			b.WriteString(`\0`)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// bytes reads a string; the result may alias the data.
func (d *decoder) bytes() ([]byte, error) {
	if d.peek() != '"' {
		return nil, d.mismatch("a string")
	}
	raw, escaped, err := d.str()
	if err == nil && escaped {
		raw = unescape(raw)
	}
	return raw, err
}

func (d *decoder) text() (string, error) {
	b, err := d.bytes()
	return string(b), err
}

// variant reads a string that must be one of the variants.
func (d *decoder) variant(variants []string) (string, error) {
	switch d.peek() {
	case '"':
	case '{':
		return "", errors.New("invalid value: map, expected map with a single key")
	default:
		return "", d.mismatch("string or map")
	}
	b, err := d.bytes()
	if err != nil {
		return "", err
	}
	for _, known := range variants {
		if string(b) == known {
			return known, nil
		}
	}
	return "", unknownVariant(b, variants)
}

func unknownVariant(got []byte, variants []string) error {
	list := "`" + strings.Join(variants, "`, `") + "`"
	switch len(variants) {
	case 1:
	case 2:
		list = "`" + variants[0] + "` or `" + variants[1] + "`"
	default:
		list = "one of " + list
	}
	return fmt.Errorf("unknown variant `%s`, expected %s", clip(got), list)
}

func enumDecoder(variants []string) decodeFunc {
	return func(d *decoder, v reflect.Value) error {
		s, err := d.variant(variants)
		if err == nil {
			v.SetString(s)
		}
		return err
	}
}

func decodeRaw(d *decoder, v reflect.Value) error {
	start := d.pos
	if err := d.value(); err != nil {
		return err
	}
	v.SetBytes(d.data[start:d.pos:d.pos])
	return nil
}

func decodeBool(d *decoder, v reflect.Value) error {
	switch d.peek() {
	case 't':
		v.SetBool(true)
		return d.word("true")
	case 'f':
		v.SetBool(false)
		return d.word("false")
	}
	return d.mismatch("a boolean")
}

// literal reads the text of a number.
func (d *decoder) literal(expected string) (string, error) {
	if c := d.peek(); c != '-' && !isDigit(c) {
		return "", d.mismatch(expected)
	}
	start := d.pos
	if err := d.number(); err != nil {
		return "", err
	}
	return string(d.data[start:d.pos]), nil
}

func intDecoder(t reflect.Type) decodeFunc {
	expected := "i" + strconv.Itoa(t.Bits())
	return func(d *decoder, v reflect.Value) error {
		text, err := d.literal(expected)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(text, 10, t.Bits())
		if err != nil {
			return errNumber
		}
		v.SetInt(n)
		return nil
	}
}

func uintDecoder(t reflect.Type, expected string) decodeFunc {
	return func(d *decoder, v reflect.Value) error {
		text, err := d.literal(expected)
		if err != nil {
			return err
		}
		if text == "-0" { // the reference accepts it
			text = "0"
		}
		n, err := strconv.ParseUint(text, 10, t.Bits())
		if err != nil {
			return errNumber
		}
		v.SetUint(n)
		return nil
	}
}

func pointerDecoder(t reflect.Type) decodeFunc {
	elem := decoderOf(t.Elem())
	return func(d *decoder, v reflect.Value) error {
		if d.peek() == 'n' {
			v.SetZero()
			return d.word("null")
		}
		p := reflect.New(t.Elem())
		if err := elem(d, p.Elem()); err != nil {
			return err
		}
		v.Set(p)
		return nil
	}
}

// elements calls f at each element of a list.
func (d *decoder) elements(f func() error) error {
	if d.peek() != '[' {
		return d.mismatch("a sequence")
	}
	if err := d.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := d.next(']', first)
		if err != nil || !more {
			return err
		}
		d.space()
		if err := f(); err != nil {
			return err
		}
	}
}

// members calls f at the value of each member of an object; f must consume it.
func (d *decoder) members(expected string, f func(key []byte) error) error {
	if d.peek() != '{' {
		return d.mismatch(expected)
	}
	if err := d.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := d.next('}', first)
		if err != nil || !more {
			return err
		}
		key, err := d.key()
		if err != nil {
			return err
		}
		if err := d.colon(); err != nil {
			return err
		}
		d.space()
		if err := f(key); err != nil {
			return err
		}
	}
}

func decodeStrings(d *decoder, v reflect.Value) error {
	list := []string{}
	err := d.elements(func() error {
		s, err := d.text()
		list = append(list, s)
		return err
	})
	if err == nil {
		*v.Addr().Interface().(*[]string) = list
	}
	return err
}

func decodeStringMap(d *decoder, v reflect.Value) error {
	m := make(map[string]string)
	err := d.members("a map", func(key []byte) error {
		s, err := d.text()
		m[string(key)] = s
		return err
	})
	if err == nil {
		*v.Addr().Interface().(*map[string]string) = m
	}
	return err
}

func sliceDecoder(t reflect.Type) decodeFunc {
	elem := decoderOf(t.Elem())
	return func(d *decoder, v reflect.Value) error {
		list := reflect.MakeSlice(t, 0, 0)
		err := d.elements(func() error {
			e := reflect.New(t.Elem()).Elem()
			if err := elem(d, e); err != nil {
				return err
			}
			list = reflect.Append(list, e)
			return nil
		})
		if err == nil {
			v.Set(list)
		}
		return err
	}
}

// A field is one row of a struct's table.
type field struct {
	name     string
	index    int
	required bool
	decode   decodeFunc
}

// maxFields is the size of the bit set of fields that a struct decoder keeps.
const maxFields = 64

func structDecoder(t reflect.Type) decodeFunc {
	fields := fieldsOf(t)
	expected := "struct " + structName(t)
	return func(d *decoder, v reflect.Value) error {
		var seen uint64
		tag := d.tagName
		d.tagName = ""
		err := d.members(expected, func(key []byte) error {
			for i := range fields {
				if f := &fields[i]; string(key) == f.name {
					seen |= 1 << i
					return f.decode(d, v.Field(f.index))
				}
			}
			if d.draft && d.unknown == nil && string(key) != tag {
				d.unknown = append([]byte{}, key...)
			}
			return d.value()
		})
		if err != nil {
			return err
		}
		for i := range fields {
			if fields[i].required && seen&(1<<i) == 0 {
				return missingField(fields[i].name)
			}
		}
		return nil
	}
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			panic("wire: " + t.String() + "." + f.Name + " has no member name")
		}
		row := field{name: name, index: i, required: f.Type.Kind() != reflect.Pointer}
		switch tag := f.Tag.Get("wire"); {
		case tag == "usize": // an optional count, which the reference's errors call usize
			count := uintDecoder(f.Type.Elem(), "usize")
			row.decode = func(d *decoder, v reflect.Value) error {
				if d.peek() == 'n' {
					v.SetZero()
					return d.word("null")
				}
				v.Set(reflect.New(v.Type().Elem()))
				return count(d, v.Elem())
			}
		default:
			row.required = row.required && tag != "default"
			row.decode = decoderOf(f.Type)
		}
		fields = append(fields, row)
	}
	if len(fields) > maxFields {
		panic("wire: too many fields in " + t.String())
	}
	return fields
}

// referenceNames are the reference's names of structs, which its errors contain, where they
// differ from the names here. A map with types as keys would be filled by code, 4 KB of it, at each start.
var referenceNames = map[string]string{
	"StartParams":          "WireExecParams",
	"StartMetadata":        "ExecMetadata",
	"EnvPolicy":            "ExecEnvPolicy",
	"ManagedNetwork":       "ManagedNetworkSandboxContext",
	"NetworkProxy":         "RemoteNetworkProxyLaunchConfig",
	"NetworkProxySettings": "RemoteNetworkProxyConfig",
	"AuditMetadata":        "NetworkProxyAuditMetadata",
	"ProcessParams":        "TerminateParams",
	"sandboxObject":        "WireFileSystemSandboxContext",
	"PolicyContext":        "WireFileSystemPolicyContext",
	"SandboxEntry":         "ExecFileSystemSandboxEntry",
	"traceContext":         "W3cTraceContext",
	"errorMember":          "JSONRPCErrorError",

	"ReadFileParams":        "WireFsReadFileParams",
	"WriteFileParams":       "WireFsWriteFileParams",
	"OpenParams":            "WireFsOpenParams",
	"ReadBlockParams":       "FsReadBlockParams",
	"WriteBlockParams":      "FsWriteBlockParams",
	"HandleParams":          "FsCloseParams",
	"CreateDirectoryParams": "WireFsCreateDirectoryParams",
	"MetadataParams":        "WireFsGetMetadataParams",
	"CanonicalizeParams":    "WireFsCanonicalizeParams",
	"ReadDirectoryParams":   "WireFsReadDirectoryParams",
	"WalkParams":            "WireFsWalkParams",
	"RemoveParams":          "WireFsRemoveParams",
	"CopyParams":            "WireFsCopyParams",
	"WatchMissingParams":    "FsWatchMissingParams",
	"ConfigReadParams":      "EnvironmentConfigReadParams",
}

func structName(t reflect.Type) string {
	return cmp.Or(referenceNames[t.Name()], t.Name())
}
