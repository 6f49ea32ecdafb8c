package terminal

import "testing"

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		typed []string
		pass  string
		leave bool
	}{
		{[]string{"~."}, "", true},
		{[]string{"ls\r~."}, "ls\r", true},
		{[]string{"ls\r", "~", "."}, "ls\r", true},
		{[]string{"a~."}, "a~.", false},
		{[]string{"~~."}, "~.", false},
		{[]string{"~", "/x\r"}, "~/x\r", false},
		{[]string{"~\r~."}, "~\r", true},
		{[]string{"\x1b[A~."}, "\x1b[A~.", false},
	} {
		e := newEscape('~')
		pass, leave := "", false
		for _, piece := range try.typed {
			text, l := e.filter([]byte(piece))
			pass, leave = pass+string(text), leave || l
		}
		if pass != try.pass || leave != try.leave {
			t.Errorf("%q: %q, %t", try.typed, pass, leave)
		}
	}
	for _, bad := range []string{"", "ab", ".", " ", "\x03"} {
		if _, err := ParseEscape(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
