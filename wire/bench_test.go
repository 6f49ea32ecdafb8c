package wire

import (
	"bytes"
	"testing"
)

const smallMessage = `{"id":14,"method":"process/write","params":{"processId":"14425-ebde3c9e-7a40-4a66-9b5e-0f6d6a2f9c11","chunk":"aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBsaW5lIG9mIGlucHV0Cg==","writeId":"0d4b6f5c-17"}}`

const startParams = `{"processId":"83727-67722466-06e8-4aae-a303-fcf7aa2fd426",` +
	`"metadata":{"threadId":"0199c6b4-4d3f-7c5a-8d7e-4f0a1b2c3d4e","toolCallId":"call1"},` +
	`"argv":["/bin/bash","-lc","echo hi > f.txt; cat /etc/hostname"],"cwd":"file:///home/dev/project",` +
	`"envPolicy":{"inherit":"all","ignoreDefaultExcludes":true,"exclude":["CODEX_VERSION"],"set":{},"includeOnly":[]},` +
	`"env":{"TERM":"dumb","LANG":"C.UTF-8"},"tty":false,"pipeStdin":false,"arg0":null,"sandbox":null,` +
	`"enforceManagedNetwork":false,"managedNetwork":null}`

func BenchmarkParseSmall(b *testing.B) {
	data := []byte(smallMessage)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseLarge(b *testing.B) {
	data := []byte(`{"id":1,"method":"process/write","params":{"chunk":"`)
	data = append(data, bytes.Repeat([]byte("QUJD"), 53<<20/4)...)
	data = append(data, `"}}`...)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseManyKeys(b *testing.B) {
	data := []byte(`{"id":1,"method":"x","params":{"k":0`)
	for i := range 100_000 {
		data = append(AppendString(append(data, ','), "key"+IntID(int64(i)).String()), ":0"...)
	}
	data = append(data, `}}`...)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeStart(b *testing.B) {
	data := []byte(startParams)
	b.ReportAllocs()
	for b.Loop() {
		var p StartParams
		if err := Decode(data, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeWrite(b *testing.B) {
	m, err := Parse([]byte(smallMessage))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var p WriteParams
		if err := Decode(m.Params, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendResult(b *testing.B) {
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := AppendResult(buf, IntID(7), StartResult{ProcessID: "proc-1", SandboxType: "none"}); err != nil {
			b.Fatal(err)
		}
	}
}
