package metrics

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// Write writes all metrics. An error only concerns the reader.
func (s *Set) Write(w io.Writer) {
	var t text
	for _, f := range s.families {
		f.write(&t)
	}
	w.Write(t.Bytes())
}

// A text is metrics in the text format of Prometheus.
type text struct{ bytes.Buffer }

// A pair is a label with one value.
type pair struct{ name, value string }

func (t *text) head(h head, kind string) {
	t.WriteString("# HELP " + h.name + " " + h.help + "\n# TYPE " + h.name + " " + kind + "\n")
}

// quoter escapes the value of a label.
var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (t *text) sample(name string, labels []pair, value float64) {
	t.WriteString(name)
	for i, l := range labels {
		t.WriteByte("{,"[min(i, 1)])
		t.WriteString(l.name + `="` + quoter.Replace(l.value) + `"`)
	}
	if len(labels) > 0 {
		t.WriteByte('}')
	}
	t.WriteString(" " + number(value) + "\n")
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
