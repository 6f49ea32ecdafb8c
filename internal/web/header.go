package web

import (
	"slices"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// maxHeaderName bounds the name of a request header, in bytes.
const maxHeaderName = 1<<16 - 1

// A field is a header name, lower case, with its values in their order.
type field struct {
	name   string
	values []string
}

// headers is an ordered set of fields. Names keep the order of their first
// appearance; repeats stand together behind the first. The zero value is empty.
type headers struct {
	fields []field
	index  map[string]int // name to its place in fields
}

// add appends a value to the field of that name, which is lower case.
func (h *headers) add(name, value string) {
	if i, ok := h.index[name]; ok {
		h.fields[i].values = append(h.fields[i].values, value)
		return
	}
	if h.index == nil {
		h.index = make(map[string]int)
	}
	h.index[name] = len(h.fields)
	h.fields = append(h.fields, field{name, []string{value}})
}

// addMissing adds the field unless there is one of that name.
func (h *headers) addMissing(name, value string) {
	if !h.has(name) {
		h.add(name, value)
	}
}

// set gives the field a single value, in its old place if it has one.
func (h *headers) set(name, value string) {
	if i, ok := h.index[name]; ok {
		h.fields[i].values = []string{value}
		return
	}
	h.add(name, value)
}

// remove drops a field. The last one takes its place: the reference does so,
// and then requests can be compared byte by byte.
func (h *headers) remove(name string) {
	i, ok := h.index[name]
	if !ok {
		return
	}
	last := len(h.fields) - 1
	h.fields[i] = h.fields[last]
	h.index[h.fields[i].name] = i
	h.fields = h.fields[:last]
	delete(h.index, name)
}

func (h *headers) has(name string) bool {
	_, ok := h.index[name]
	return ok
}

// values returns the values of a field, nil if there is none.
func (h *headers) values(name string) []string {
	if i, ok := h.index[name]; ok {
		return h.fields[i].values
	}
	return nil
}

// wantsConnection tells whether the connection header names an option.
func (h *headers) wantsConnection(option string) bool {
	for _, line := range h.values("connection") {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(token, " \t"), option) {
				return true
			}
		}
	}
	return false
}

// clone returns a copy that shares nothing that can change.
func (h *headers) clone() headers {
	var c headers
	for _, f := range h.fields {
		for _, v := range f.values {
			c.add(f.name, v)
		}
	}
	return c
}

// wire returns what the client is told of an answer's headers: values that
// are not visible ASCII are left out.
func (h *headers) wire() []wire.HTTPResponseHeader {
	list := make([]wire.HTTPResponseHeader, 0, len(h.fields))
	for _, f := range h.fields {
		for _, v := range f.values {
			if isASCII(v) {
				list = append(list, wire.HTTPResponseHeader{Name: f.name, Value: v})
			}
		}
	}
	return list
}

// isToken tells whether s is a token of RFC 9110: a method, a header name.
func isToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return len(s) > 0
}

var tokenBytes = func() (table [256]bool) {
	const token = "!#$%&'*+-.^_`|~0123456789" +
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, c := range []byte(token) {
		table[c] = true
	}
	return table
}()

// isHeaderValue tells whether s may stand in a header line: no control
// characters but the tab.
func isHeaderValue[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c >= 0x80 })
}
