package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A source is the Go source of package wire.
type source struct {
	pkg       *types.Package
	specs     map[string]*ast.TypeSpec
	docs      map[string]string          // of types
	methods   map[string]map[string]bool // the names of methods, by receiver
	variants  map[string]*ast.FuncDecl   // the methods `variants` of enums, by receiver
	values    map[string][]valueDecl     // constants of named types, by type
	vars      map[string]ast.Expr        // values of variables
	constants []constantGroup            // exported strings and integers without a type of their own
}

// A valueDecl is a constant of a named type.
type valueDecl struct{ text, doc string }

// readSource reads the files of package wire. Function bodies and imported packages are not checked: the schema
// depends on declarations only.
func readSource(dir string) (*source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%w (run this in the root of the repository)", err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, entry := range entries {
		if !isSource(entry) {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(dir, entry.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: stubs{}, IgnoreFuncBodies: true, Error: func(error) {}}
	pkg, _ := config.Check("wire", fset, files, nil) // errors: the imported packages are empty
	if pkg == nil {
		return nil, errors.New("package wire cannot be checked")
	}
	s := &source{
		pkg: pkg, specs: map[string]*ast.TypeSpec{}, docs: map[string]string{}, methods: map[string]map[string]bool{},
		variants: map[string]*ast.FuncDecl{}, values: map[string][]valueDecl{}, vars: map[string]ast.Expr{},
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			s.declare(decl)
		}
	}
	return s, nil
}

func isSource(entry fs.DirEntry) bool {
	name := entry.Name()
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// stubs are packages without content, except for the one imported type that is on the wire.
type stubs struct{}

func (stubs) Import(name string) (*types.Package, error) {
	pkg := types.NewPackage(name, path.Base(name))
	if name == "encoding/json" {
		raw := types.NewTypeName(token.NoPos, pkg, "RawMessage", nil)
		types.NewNamed(raw, types.NewSlice(types.Typ[types.Byte]), nil)
		pkg.Scope().Insert(raw)
	}
	pkg.MarkComplete()
	return pkg, nil
}

func (s *source) declare(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		s.declareMethod(decl)
	case *ast.GenDecl:
		switch decl.Tok {
		case token.TYPE:
			for _, spec := range decl.Specs {
				spec := spec.(*ast.TypeSpec)
				s.specs[spec.Name.Name] = spec
				s.docs[spec.Name.Name] = docText(spec.Doc, decl.Doc)
			}
		case token.CONST:
			s.declareConstants(decl)
		case token.VAR:
			for _, spec := range decl.Specs {
				if spec := spec.(*ast.ValueSpec); len(spec.Names) == 1 && len(spec.Values) == 1 {
					s.vars[spec.Names[0].Name] = spec.Values[0]
				}
			}
		}
	}
}

func (s *source) declareMethod(decl *ast.FuncDecl) {
	if decl.Recv == nil {
		return
	}
	t := decl.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	receiver, ok := t.(*ast.Ident)
	if !ok {
		return
	}
	if s.methods[receiver.Name] == nil {
		s.methods[receiver.Name] = map[string]bool{}
	}
	s.methods[receiver.Name][decl.Name.Name] = true
	if decl.Name.Name == "variants" {
		s.variants[receiver.Name] = decl
	}
}

func (s *source) declareConstants(decl *ast.GenDecl) {
	group := constantGroup{}
	if decl.Lparen.IsValid() {
		group.doc = docText(decl.Doc)
	}
	for _, spec := range decl.Specs {
		spec := spec.(*ast.ValueSpec)
		doc := docText(spec.Doc, spec.Comment)
		if !decl.Lparen.IsValid() {
			doc = docText(decl.Doc, spec.Comment)
		}
		for _, name := range spec.Names {
			c, ok := s.pkg.Scope().Lookup(name.Name).(*types.Const)
			if !ok || c.Val() == nil {
				continue
			}
			if t, isNamed := c.Type().(*types.Named); isNamed {
				if c.Val().Kind() == constant.String {
					owner := t.Obj().Name()
					s.values[owner] = append(s.values[owner], valueDecl{constant.StringVal(c.Val()), doc})
				}
				continue
			}
			if v := plainValue(c.Val()); v != nil && name.IsExported() {
				group.constants = append(group.constants, constantEntry{name.Name, doc, v})
			}
		}
	}
	if len(group.constants) > 0 {
		s.constants = append(s.constants, group)
	}
}

// plainValue is a string or an integer; nil: the constant is neither.
func plainValue(v constant.Value) any {
	switch v.Kind() {
	case constant.String:
		return constant.StringVal(v)
	case constant.Int:
		if n, exact := constant.Int64Val(v); exact {
			return n
		}
	}
	return nil
}

// texts evaluates a list of strings: literals, constants, and conversions of constants.
func (s *source) texts(e ast.Expr) (list []string, ok bool) {
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	for _, elem := range literal.Elts {
		if call, isCall := elem.(*ast.CallExpr); isCall && len(call.Args) == 1 {
			elem = call.Args[0]
		}
		switch elem := elem.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(elem.Value)
			if err != nil {
				return nil, false
			}
			list = append(list, text)
		case *ast.Ident:
			c, isConst := s.pkg.Scope().Lookup(elem.Name).(*types.Const)
			if !isConst {
				return nil, false
			}
			list = append(list, constant.StringVal(c.Val()))
		default:
			return nil, false
		}
	}
	return list, true
}

// variantsOf returns the values of an enum.
func (s *source) variantsOf(name string) (list []string, ok bool) {
	decl := s.variants[name]
	if decl == nil || len(decl.Body.List) != 1 {
		return nil, false
	}
	result, isReturn := decl.Body.List[0].(*ast.ReturnStmt)
	if !isReturn || len(result.Results) != 1 {
		return nil, false
	}
	return s.texts(result.Results[0])
}

// Comments of Go in words that fit every language.
var (
	goNil  = regexp.MustCompile(`\bnil\b`)
	goLink = regexp.MustCompile(`\[(\w+)\]`)
)

// docText is the text of the first comment that there is.
func docText(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := strings.TrimSpace(g.Text()); text != "" {
			return goLink.ReplaceAllString(goNil.ReplaceAllString(text, "absent"), "$1")
		}
	}
	return ""
}
