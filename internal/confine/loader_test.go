package confine

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loaderOf finds the same loader as debug/elf in the programs of this
// machine.
func TestLoaderOf(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{self, "/bin/sh", "/bin/ls", "/usr/bin/env"} {
		file, err := os.Open(name)
		if err != nil {
			continue // not every machine has it
		}
		defer file.Close()
		want := ""
		if program, err := elf.NewFile(file); err == nil {
			for _, part := range program.Progs {
				if part.Type == elf.PT_INTERP {
					text, err := io.ReadAll(part.Open())
					if err != nil {
						t.Fatal(err)
					}
					if want, err = filepath.EvalSymlinks(strings.TrimRight(string(text), "\x00")); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if got, err := loaderOf(file); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}

// elfProgram returns a program with two program headers, of which the second names the
// loader.
func elfProgram(t *testing.T, order binary.ByteOrder, wide bool, loader string) []byte {
	t.Helper()
	var b bytes.Buffer
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), 1}
	if order == binary.BigEndian {
		ident[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	}
	if wide {
		ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	}
	parts := []any{
		elf.Header32{Ident: ident, Phoff: 52, Phentsize: 32, Phnum: 2},
		elf.Prog32{Type: uint32(elf.PT_LOAD)},
		elf.Prog32{Type: uint32(elf.PT_INTERP), Off: 52 + 64, Filesz: uint32(len(loader))},
	}
	if wide {
		parts = []any{
			elf.Header64{Ident: ident, Phoff: 64, Phentsize: 56, Phnum: 2},
			elf.Prog64{Type: uint32(elf.PT_LOAD)},
			elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 64 + 112, Filesz: uint64(len(loader))},
		}
	}
	for _, part := range parts {
		if err := binary.Write(&b, order, part); err != nil {
			t.Fatal(err)
		}
	}
	return append(b.Bytes(), loader...)
}

func TestLoaderOfAllKinds(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(dir, "ld.so")
	if err := os.WriteFile(loader, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, wide := range []bool{false, true} {
			program := elfProgram(t, order, wide, loader+"\x00")
			if got, err := loaderOf(bytes.NewReader(program)); got != loader || err != nil {
				t.Errorf("%v, 64 bits %v: %q, %v", order, wide, got, err)
			}
			if got, err := loaderOf(bytes.NewReader(program[:len(program)-3])); got != "" || err == nil {
				t.Errorf("%v, 64 bits %v, cut off: %q, %v", order, wide, got, err)
			}
		}
	}
	for _, text := range []string{"", "#!/bin/sh", strings.Repeat("x", 100)} {
		if got, err := loaderOf(strings.NewReader(text)); got != "" || err != nil {
			t.Errorf("%.10q: %q, %v", text, got, err)
		}
	}
}
