package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"reflect"
	"strings"
)

// A collector finds the types that the calls need.
type collector struct {
	source *source
	types  map[string]*typ
	errs   []string
}

func (c *collector) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Sprintf(format, args...))
}

// add adds a type of package wire, and those that it consists of.
func (c *collector) add(name string) {
	if c.types[name] != nil {
		return
	}
	s := c.source
	t := &typ{name: name, doc: s.docs[name]}
	c.types[name] = t
	if list, ok := s.variantsOf(name); ok {
		t.kind = enum
		for _, text := range list {
			t.values = append(t.values, value{text, s.valueDoc(name, text)})
		}
		return
	}
	if s.methods[name]["decodeWire"] {
		describe := special(name)
		if describe == nil {
			c.fail("wire.%s has a method decodeWire, so its form does not follow from its declaration: describe it in schema/generate/specials.go", name)
			return
		}
		describe(c, t)
		return
	}
	obj, ok := s.pkg.Scope().Lookup(name).(*types.TypeName)
	if !ok {
		c.fail("there is no type wire.%s: types of calls must be in package wire", name)
		return
	}
	switch under := obj.Type().Underlying().(type) {
	case *types.Struct:
		t.kind, t.fields = object, c.structFields(name, under)
	default:
		t.kind, t.of = alias, c.use(name, under)
	}
}

// valueDoc is the comment of the constant of a type with this value.
func (s *source) valueDoc(name, text string) string {
	for _, v := range s.values[name] {
		if v.text == text {
			return v.doc
		}
	}
	return ""
}

// structFields are the members of a struct by the rules of wire.Decode.
func (c *collector) structFields(name string, t *types.Struct) (fields []field) {
	docs := c.source.fieldDocs(name)
	for i := range t.NumFields() {
		v := t.Field(i)
		tag := reflect.StructTag(t.Tag(i))
		member, _, _ := strings.Cut(tag.Get("json"), ",")
		if !v.Exported() || member == "-" {
			continue
		}
		where := name + "." + v.Name()
		if member == "" {
			c.fail("wire.%s has no name in JSON", where)
			continue
		}
		f := field{name: member, doc: docs[v.Name()], required: tag.Get("wire") != "default"}
		of := v.Type()
		if pointer, ok := of.(*types.Pointer); ok {
			f.required, f.nullable = false, true
			of = pointer.Elem()
		}
		f.of = c.use(where, of)
		fields = append(fields, f)
	}
	return fields
}

// fieldDocs are the comments of a struct's fields: above them, or else beside them.
func (s *source) fieldDocs(name string) map[string]string {
	docs := map[string]string{}
	if spec := s.specs[name]; spec != nil {
		if t, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range t.Fields.List {
				for _, n := range f.Names {
					docs[n.Name] = docText(f.Doc, f.Comment)
				}
			}
		}
	}
	return docs
}

// use is a reference to a type; where names the place for errors.
func (c *collector) use(where string, t types.Type) *ref {
	switch t := t.(type) {
	case *types.Alias:
		return c.use(where, types.Unalias(t))
	case *types.Pointer:
		r := *c.use(where, t.Elem())
		r.nullable = true
		return &r
	case *types.Named:
		name := t.Obj().Name()
		if name == "RawMessage" {
			return &ref{shape: anything}
		}
		c.add(name)
		return &ref{shape: named, name: name}
	case *types.Slice:
		return &ref{shape: list, elem: c.use(where, t.Elem())}
	case *types.Map:
		return &ref{shape: mapping, elem: c.use(where, t.Elem())}
	case *types.Basic:
		return c.basic(where, t)
	}
	c.fail("wire.%s has the type %s, which the generator does not know", where, t)
	return &ref{shape: anything}
}

func (c *collector) basic(where string, t *types.Basic) *ref {
	sizes := map[types.BasicKind]int{
		types.Int: 64, types.Int64: 64, types.Int32: 32, types.Int16: 16, types.Int8: 8,
		types.Uint: 64, types.Uint64: 64, types.Uint32: 32, types.Uint16: 16, types.Uint8: 8,
	}
	switch {
	case t.Info()&types.IsInteger != 0 && sizes[t.Kind()] > 0:
		return &ref{shape: integer, bits: sizes[t.Kind()], unsigned: t.Info()&types.IsUnsigned != 0}
	case t.Kind() == types.String:
		return &ref{shape: text}
	case t.Kind() == types.Bool:
		return &ref{shape: boolean}
	case t.Kind() == types.Float64:
		return &ref{shape: number}
	}
	c.fail("wire.%s has the type %s, which the generator does not know", where, t)
	return &ref{shape: anything}
}

// fieldsOf are the members of a struct of package wire.
func (c *collector) fieldsOf(name string) []field {
	obj, ok := c.source.pkg.Scope().Lookup(name).(*types.TypeName)
	if !ok {
		c.fail("there is no type wire.%s", name)
		return nil
	}
	t, ok := obj.Type().Underlying().(*types.Struct)
	if !ok {
		c.fail("wire.%s is not a struct", name)
		return nil
	}
	return c.structFields(name, t)
}
