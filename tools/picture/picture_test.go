package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lines writes on a screen and returns its lines.
func lines(t *testing.T, s *screen, texts ...string) (list []string) {
	t.Helper()
	for _, part := range texts {
		if err := s.write(part); err != nil {
			t.Fatal(err)
		}
	}
	for _, cells := range s.lines {
		list = append(list, text(cells))
	}
	return list
}

func TestScreen(t *testing.T) {
	for name, row := range map[string]struct {
		in   []string
		want []string
	}{
		"lines":          {[]string{"one\r\ntwo"}, []string{"one", "two"}},
		"typed over":     {[]string{"abc\b\bX\rY"}, []string{"YXc"}},
		"a tab":          {[]string{"a\tb"}, []string{"a       b"}},
		"a wide line":    {[]string{"0123456789abc"}, []string{"0123456789", "abc"}},
		"a split escape": {[]string{"\x1b[", "32mgreen\x1b", "[m"}, []string{"green"}},
		"a title":        {[]string{"\x1b]2;title\x07text"}, []string{"text"}},
		"a line erased":  {[]string{"gone\x1b[2K\rhere"}, []string{"here"}},
		// What tether prints while the connection is lost, and when it is back.
		"the status": {[]string{"1\r\n", "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[2Klost\x1b8", "\x1b[J", "2\r\n"}, []string{"1", "2", ""}},
	} {
		if got := lines(t, newScreen(10, 3), row.in...); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	s := newScreen(10, 2)
	if lines(t, s, "1\r\n2\r\n3"); s.top != 1 || s.row != 2 {
		t.Errorf("after three lines on two rows, the first one is %d and the cursor is in %d", s.top, s.row)
	}
	if err := newScreen(10, 2).write("\x1b[5q"); err == nil {
		t.Error("an unknown sequence is accepted")
	}
}

// printed is what `tether logs --json` prints of a command.
func printed(t *testing.T, list ...output) string {
	t.Helper()
	var b strings.Builder
	for _, o := range list {
		line, err := json.Marshal(map[string]any{"event": "output", "timeMs": o.at, "text": o.text})
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(string(line) + "\n")
	}
	return b.String() + `{"event":"closed"}` + "\n"
}

// draw makes a picture of what was printed on the terminal and on the other machine.
func draw(t *testing.T, here, there string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(path("here"), []byte(here), 0o600), os.WriteFile(path("there"), []byte(there), 0o600)); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"-terminal", path("here"), "-command", path("there"), "-cut", "2000", "-mended", "8000", "-cols", "40", "-rows", "4", "-out", path("svg")})
	picture, _ := os.ReadFile(path("svg"))
	return string(picture), err
}

// A picture is well-formed, has each line and the numbers of lines, and says what it shows.
func TestPicture(t *testing.T) {
	here := printed(t, output{1000, "\x1b[32m$\x1b[m make\r\n"}, output{1500, "line <1>\r\n"}, output{8200, "line 2\r\nline 3\r\n"}, output{9000, "$ "})
	there := printed(t, output{1400, "line <1>\n"}, output{4000, "line 2\n"}, output{6000, "line 3\n"})
	picture, err := draw(t, here, there)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"line &lt;1&gt;", "line 3", "0 printed", "1 arrived", "2 printed", "3 arrived", "all 3 lines are here, each once", "pulled out for 6 seconds", "prefers-color-scheme:dark", "prefers-reduced-motion"} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture does not have %q", want)
		}
	}
	if strings.Contains(picture, "2 arrived") {
		t.Error("lines 2 and 3 arrive at the same time, but the picture counts them one by one")
	}
}

// There is no picture of a run in which a line was lost, came twice, or came too early.
func TestNoPictureOfALoss(t *testing.T) {
	there := printed(t, output{1400, "one\n"}, output{4000, "two\n"})
	for name, arrived := range map[string]string{
		"lost":     "one\r\n",
		"twice":    "one\r\ntwo\r\ntwo\r\n",
		"order":    "two\r\none\r\n",
		"at once ": "one two\r\n",
	} {
		here := printed(t, output{1000, "$ make\r\n"}, output{8200, arrived}, output{9000, "$ "})
		if _, err := draw(t, here, there); err == nil {
			t.Errorf("%s: there is a picture", name)
		}
	}
	whole := printed(t, output{1000, "$ make\r\n"}, output{8200, "one\r\ntwo\r\n"}, output{9000, "$ "})
	if _, err := draw(t, whole, strings.TrimSuffix(there, `{"event":"closed"}`+"\n")); err == nil {
		t.Error("there is a picture of a command that has not ended")
	}
}
