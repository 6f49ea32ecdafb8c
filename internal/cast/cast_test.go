package cast

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var start = time.Unix(1700000000, 250e6)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// written returns the recording that a function makes.
func written(t testing.TB, h Header, pipes bool, write func(*Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, h, pipes)
	if err == nil {
		err = write(w)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// events reads a recording to its end.
func events(r *Reader) (all []Event, err error) {
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	got := written(t, Header{Width: 120, Height: 40, Start: start, Title: `echo "a"`, Idle: 1500 * time.Millisecond}, true, func(w *Writer) error {
		return errors.Join(
			w.Output(at(-5), "stdout", []byte("first\n\x1b[1m\\\x00\x7f\"")),
			w.Output(at(1042), "stdout", []byte("a\xe2\x82")),       // the beginning of €
			w.Output(at(1043), "stderr", []byte("\xff|")),           // no character begins like this
			w.Output(at(1044), "stdout", []byte("\xac")),            // its end
			w.Output(at(900), "stderr", []byte("the clock went b")), // backwards
			w.Output(at(2000), "stdout", []byte("\xf0\x9f")),        // nothing follows
			w.Marker(time.Time{}, "here\n"),
			w.Output(at(3600_000), "stdout", []byte("x")))
	})
	want := `{"version":2,"width":120,"height":40,"timestamp":1700000000,"idle_time_limit":1.5,"title":"echo \"a\""}
[0.000, "o", "first\r\n\u001b[1m\\\u0000\u007f\""]
[1.042, "o", "a"]
[1.043, "o", "` + "\ufffd" + `|"]
[1.044, "o", "€"]
[1.044, "o", "the clock went b"]
[2.000, "m", "here\n"]
[3600.000, "o", "` + "\ufffd\ufffd" + `x"]
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if !json.Valid([]byte(line)) {
			t.Errorf("this is not JSON: %s", line)
		}
	}
}

// What is left of a character at the end is written, without a terminal's carriage returns if the process had a terminal.
func TestWriterAtTheEnd(t *testing.T) {
	t.Parallel()
	got := written(t, Header{Width: 1, Height: 1, Start: start}, false, func(w *Writer) error {
		return w.Output(at(1), "pty", []byte("\n\xe2\x82"))
	})
	if want := "[0.001, \"o\", \"\\n\"]\n[0.001, \"o\", \"\ufffd\ufffd\"]\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Output of any size becomes lines that a Reader accepts, and long titles are cut.
func TestWriterLimits(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte{0}, 3*maxText+1)
	text := written(t, Header{Width: 80, Height: 24, Start: start, Title: strings.Repeat("€", maxTitle)}, false, func(w *Writer) error {
		return w.Output(at(0), "stdout", data)
	})
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if title := r.Header().Title; !utf8.ValidString(title) || len(title) > maxTitle+3 || !strings.HasSuffix(title, "€…") {
		t.Errorf("title of %d bytes", len(title))
	}
	all, err := events(r)
	if err != nil || len(all) != 4 {
		t.Errorf("%d events, %v", len(all), err)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	r, err := NewReader(strings.NewReader(`{"version": 2, "width": 80, "height": 24, "timestamp": 1504467315, "title": "Demo", "idle_time_limit": 2.5, "env": {"TERM": 5}}
[0.248848, "o", "\u001b[1;31mHello"]

[1.001376, "i", "x"]
[1, "r", "100x50"]
[2.143733, "m", ""]
[2.5, "o", "end"]`))
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Header(); h != (Header{80, 24, time.Unix(1504467315, 0), "Demo", 2500 * time.Millisecond}) {
		t.Errorf("%+v", h)
	}
	all, err := events(r)
	want := []Event{
		{248848 * time.Microsecond, Output, "\x1b[1;31mHello"}, {1001376 * time.Microsecond, Input, "x"},
		{1001376 * time.Microsecond, Resize, "100x50"}, {2143733 * time.Microsecond, Marker, ""}, {2500 * time.Millisecond, Output, "end"},
	}
	if err != nil || fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("%v, %v", all, err)
	}
}

// Files that are not recordings are refused, with the line and the problem.
func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	const header = `{"version": 2, "width": 80, "height": 24}` + "\n"
	for text, want := range map[string]string{
		"":                   "line 1: the file is empty",
		"hello\n":            "line 1: this is no recording",
		"[1, \"o\", \"\"]\n": "line 1: this is no recording",
		`{"version": null}`:  "line 1: this is no recording",
		"\x7fELF\x00\x00":    "line 1: this is no recording",
		`{"version": 1}`:     "line 1: this is version 1",
		`{"version": 3}`:     "line 1: this is version 3",
		`{"version": 2}`:     "line 1: the header needs a",
		`{"version": 2, "width": 80, "height": 65536}`:                     "line 1: the header needs a height between 1 and 65535",
		`{"version": 2, "width": 0, "height": 24}`:                         "line 1: the header needs a width",
		`{"version": 2, "width": "80", "height": 24}`:                      "line 1: malformed header",
		`{"version": 2, "width": 80, "height": 24, "idle_time_limit": -1}`: "line 1: the header's idle_time_limit",
		strings.Repeat(" ", MaxLine+1):                                     "line 1: the line is longer than",
		header + "[1, \"o\", \"" + strings.Repeat("x", MaxLine) + "\"]\n":  "line 2: the line is longer than",
		header + "[1, \"o\", \"a\"]\n[2, \"o\", \"b":                       "line 3: malformed event",
		header + `[1, "o"]`:                                                "line 2: malformed event",
		header + `[1, "o", "a", "b"]`:                                      "line 2: malformed event",
		header + `[null, "o", "a"]`:                                        "line 2: malformed event",
		header + `[1, null, "a"]`:                                          "line 2: malformed event",
		header + `[1, "o", 5]`:                                             "line 2: malformed event",
		header + `[1e999, "o", "a"]`:                                       "line 2: malformed event",
		header + `[-0.1, "o", "a"]`:                                        "line 2: the time",
		header + `[1e10, "o", "a"]`:                                        "line 2: the time",
		header + `{"time": 1}`:                                             "line 2: malformed event",
	} {
		r, err := NewReader(strings.NewReader(text))
		if err == nil {
			_, err = events(r)
		}
		if _, is := errors.AsType[*FormatError](err); !is || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}

// A recording ends with the error of the file that it is written to, or read from.
func TestErrorsOfFiles(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r, w := io.Pipe()
	r.CloseWithError(broken)
	out, err := NewWriter(w, Header{Width: 1, Height: 1}, false)
	if err == nil {
		err = out.Close()
	}
	if !errors.Is(err, broken) {
		t.Errorf("written: %v", err)
	}
	r, w = io.Pipe()
	w.CloseWithError(broken)
	if _, err := NewReader(r); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
}

// Whatever a Reader accepts, its times do not decrease, and a Writer writes the text of its output so that it is read again.
func FuzzReader(f *testing.F) {
	const header = `{"version": 2, "width": 80, "height": 24, "title": "t"}` + "\n"
	for _, seed := range []string{"", header, header + "[0.5, \"o\", \"a\\u001b\\n\"]\n[0.1, \"r\", \"8x9\"]\n", header + "[1e3, \"o\", \"\\ud800é\xff\"]", `{"version": 1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		all, _ := events(r)
		var want strings.Builder
		again := written(t, r.Header(), false, func(w *Writer) error {
			last := time.Duration(0)
			for _, e := range all {
				if e.Time < last || e.Time > MaxTime || !utf8.ValidString(e.Text) {
					t.Fatalf("%+v after %v", e, last)
				}
				last = e.Time
				if e.Kind == Output {
					want.WriteString(e.Text)
					if err := w.Output(r.Header().Start.Add(e.Time), "", []byte(e.Text)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if r, err = NewReader(strings.NewReader(again)); err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		all, err = events(r)
		var got strings.Builder
		for _, e := range all {
			got.WriteString(e.Text)
		}
		if err != nil || got.String() != want.String() {
			t.Fatalf("read again: %q, %v; want %q", got.String(), err, want.String())
		}
	})
}

// However output is split into events, its text stays the same.
func FuzzWriterSplits(f *testing.F) {
	f.Add([]byte("a€𝄞\xff\xe2\x82b"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		text := written(t, Header{Width: 1, Height: 1, Start: start}, false, func(w *Writer) error {
			for rest := data; len(rest) > 0; {
				part := rest[:min(len(rest), int(size)+1)]
				rest = rest[len(part):]
				if err := w.Output(at(0), "stdout", part); err != nil {
					return err
				}
			}
			return nil
		})
		r, err := NewReader(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		all, err := events(r)
		var got strings.Builder
		for _, e := range all {
			got.WriteString(e.Text)
		}
		if want := string([]rune(string(data))); err != nil || got.String() != want {
			t.Fatalf("%q, %v; want %q", got.String(), err, want)
		}
	})
}
