package rpc

import (
	"errors"
	"io"
	"strings"
	"testing"
)

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func linesOf(text string) *Lines {
	return NewLines(io.NopCloser(strings.NewReader(text)), nopCloser{io.Discard})
}

func TestLines(t *testing.T) {
	full := strings.Repeat("m", MaxMessage)
	for name, c := range map[string]struct {
		in   string
		want []string
		code uint16 // 0: io.EOF
	}{
		"nothing":               {"", nil, 0},
		"two":                   {"a\nb\n", []string{"a", "b"}, 0},
		"carriage returns":      {"a\r\nb\r\r\n", []string{"a", "b\r"}, 0},
		"blank":                 {"\n \n\t\r\na\n\n", []string{"a"}, 0},
		"unfinished":            {"a\nb", []string{"a"}, 0},
		"longer than a buffer":  {strings.Repeat("l", 70<<10) + "\n", []string{strings.Repeat("l", 70<<10)}, 0},
		"invalid UTF-8":         {"a\n\xff\nb\n", []string{"a"}, CloseBadData},
		"longest with return":   {full + "\r\n", []string{full}, 0},
		"too long and no end":   {full + strings.Repeat("m", 70<<10), nil, CloseTooBig},
		"return is not the end": {full + "\rm\n", nil, CloseTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			s := linesOf(c.in)
			for _, want := range c.want {
				if got, err := s.Read(); err != nil || string(got) != want {
					t.Fatalf("got %.20q (%d), %v", got, len(got), err)
				}
			}
			_, err := s.Read()
			if e, ok := errors.AsType[*CloseError](err); c.code == 0 && err != io.EOF || c.code != 0 && (!ok || e.Code != c.code) {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// Text before the first message is skipped, up to a limit.
func TestForeignText(t *testing.T) {
	for name, c := range map[string]struct {
		in, want string
		code     uint16
	}{
		"none":              {`{"id":1}` + "\n", `{"id":1}`, 0},
		"a banner":          {"Welcome\n\n* to \xff *\r\n[1]\n" + `{"id":1}` + "\n", `{"id":1}`, 0},
		"only text":         {"Welcome\n", "", 0},
		"behind a message":  {"{}\nWelcome\n", "{}", 0},
		"up to the limit":   {strings.Repeat(strings.Repeat("w", 1023)+"\n", 63) + "{}\n", "{}", 0},
		"more than allowed": {strings.Repeat(strings.Repeat("w", 1023)+"\n", 64) + "{}\n", "", CloseBadData},
	} {
		t.Run(name, func(t *testing.T) {
			s := linesOf(c.in)
			s.SkipForeignText()
			got, err := s.Read()
			if e, ok := errors.AsType[*CloseError](err); c.code != 0 && (!ok || e.Code != c.code) || c.code == 0 && c.want == "" && err != io.EOF || string(got) != c.want {
				t.Errorf("%q, %v", got, err)
			}
			if next, err := s.Read(); name == "behind a message" && (string(next) != "Welcome" || err != nil) {
				t.Errorf("the next line: %q, %v", next, err)
			}
		})
	}
}

func TestLinesOut(t *testing.T) {
	var out strings.Builder
	s := NewLines(io.NopCloser(strings.NewReader("")), nopCloser{&out})
	b := s.Seal(append(s.Open(nil, 3), "one"...), 0, 3)
	b = s.Control(b, Ping, nil)
	mark := len(b)
	b = s.Seal(append(s.Open(b, 9), "two"...), mark, 9)
	if err := errors.Join(s.Write(b), s.WriteMessage([]byte("three"))); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "one\ntwo\nthree\n" {
		t.Errorf("got %q", got)
	}
}

// Answers that were given before the end of the input are still sent.
func TestLinesAnswerBeforeTheEnd(t *testing.T) {
	r, w := io.Pipe()
	in := io.NopCloser(strings.NewReader(`{"id":1,"method":"m","params":[1]}` + "\n" + `{"id":2,"method":"m"}`))
	c := serve(t, NewLines(in, w), echo)
	got, err := io.ReadAll(r)
	if err != nil || string(got) != `{"id":1,"result":[1]}`+"\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if why := c.wait(t); why != io.EOF {
		t.Errorf("ended with %v", why)
	}
}
