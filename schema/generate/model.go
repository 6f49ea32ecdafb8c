package main

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// A model is what the generated files say, independent of their languages.
type model struct {
	types     []*typ // by name
	constants []constantGroup
	exec, app []call
}

// wireVersion is the version of the protocol: that of the reference.
const wireVersion = wire.ReferenceVersion

// A call is a row of wire.ExecCalls or wire.AppCalls.
type call struct {
	wire.Call
	params, result *ref // nil: there are none
}

// A kind says which members of a typ are set.
type kind uint8

const (
	object kind = iota // fields
	enum               // values
	union              // tag, variants
	alias              // of
)

// A typ is a named type of the protocol.
type typ struct {
	name, doc string
	kind      kind
	fields    []field
	closed    bool // members other than the fields are an error
	values    []value
	tag       string // the member that tells the variants apart
	variants  []variant
	of        *ref
	nullable  bool // null is a value, too

	schema     func(jsonObject) jsonObject // changes the JSON Schema that follows from the above; may be nil
	typescript string                      // in place of the type that follows from the above
	python     string
}

// A field is a member of an object.
type field struct {
	name, doc string
	of        *ref
	required  bool
	nullable  bool
}

// A value is one value of an enum.
type value struct{ text, doc string }

// A variant is one form of a union.
type variant struct {
	value, doc string
	fields     []field
}

// A shape is the form of a value without a name.
type shape uint8

const (
	text shape = iota
	boolean
	integer
	number
	anything
	list    // of elem
	mapping // from text to elem
	named   // name
)

// A ref is the use of a type.
type ref struct {
	shape    shape
	name     string
	typ      *typ // of a call
	elem     *ref
	nullable bool // of an elem or an alias; members have field.nullable

	bits     int  // of an integer
	unsigned bool // of an integer
	min      int  // of an integer, if it is not 0
	positive bool // of a number: it is above zero
	format   string
	pattern  string
}

// A constantGroup is a declaration of constants.
type constantGroup struct {
	doc       string
	constants []constantEntry
}

// A constantEntry is a string or an integer.
type constantEntry struct {
	name, doc string
	value     any // string or int64
}

// roots are the types that no call names and that are part of the protocol nevertheless.
var roots = []string{"FleetHosts"}

// readModel builds the model from the tables of calls and the source of package wire in dir.
func readModel(dir string) (*model, error) {
	s, err := readSource(dir)
	if err != nil {
		return nil, err
	}
	m := &model{constants: s.constants}
	c := collector{source: s, types: map[string]*typ{}}
	for _, table := range []struct {
		from []wire.Call
		to   *[]call
	}{{wire.ExecCalls, &m.exec}, {wire.AppCalls, &m.app}} {
		for _, row := range table.from {
			*table.to = append(*table.to, call{Call: row, params: c.pointee(row.Params), result: c.pointee(row.Result)})
		}
	}
	for _, name := range roots {
		c.add(name)
	}
	c.envelope()
	if len(c.errs) > 0 {
		return nil, fmt.Errorf("the schema cannot be generated:\n  %s", strings.Join(c.errs, "\n  "))
	}
	m.types = slices.SortedFunc(maps.Values(c.types), func(a, b *typ) int { return cmp.Compare(a.name, b.name) })
	return m, s.missingCalls()
}

// pointee is the type that the nil pointer v points to.
func (c *collector) pointee(v any) *ref {
	if v == nil {
		return nil
	}
	name := reflect.TypeOf(v).Elem().Name()
	c.add(name)
	return &ref{shape: named, name: name, typ: c.types[name]}
}

// hasWord reports whether the name of a constant begins with a word.
func hasWord(name, word string) bool {
	return strings.HasPrefix(name, word) && len(name) > len(word) && name[len(word)] <= 'Z'
}

// missingCalls fails if a method or notification that package wire names is in no table.
func (s *source) missingCalls() error {
	known := map[string]bool{}
	for _, row := range slices.Concat(wire.ExecCalls, wire.AppCalls) {
		known[row.Name] = true
	}
	for _, group := range s.constants {
		for _, k := range group.constants {
			name, isText := k.value.(string)
			isCall := hasWord(k.name, "Method") || hasWord(k.name, "Note")
			if isText && isCall && !known[name] {
				return fmt.Errorf("wire.%s (%s) is in no table: add a row for it to ExecCalls or AppCalls in wire/calls.go, and run `make schema`", k.name, name)
			}
		}
	}
	return nil
}
