package statedir

import "testing"

// The users of a namespace are those in the ranges of its table.
func TestMappedUsers(t *testing.T) {
	t.Parallel()
	const whole = "         0          0 4294967295\n"
	const rootless = "         0       1000          1\n         1     100000      65536\n"
	for _, c := range []struct {
		table string
		uid   uint32
		want  bool
	}{
		{whole, overflowUID, true},
		{rootless, overflowUID, true},
		{rootless, 65537, false},
		{"         0       1000          1\n", overflowUID, false},
		{"     65534       1000          1\n", overflowUID, true},
		{"     65535       1000          1\n", overflowUID, false},
		{"", overflowUID, false},
		{"0 1000\n", overflowUID, true},
		{"0 1000 many\n", overflowUID, true},
	} {
		if got := mapped(c.table, c.uid); got != c.want {
			t.Errorf("user %d in %q: mapped is %v, want %v", c.uid, c.table, got, c.want)
		}
	}
}
