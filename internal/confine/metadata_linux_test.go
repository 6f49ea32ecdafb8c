package confine

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/wire"
)

// chmodSelf, as the only argument, makes this program set its own present mode.
const chmodSelf = "chmod-self"

func init() {
	if len(os.Args) != 2 || os.Args[1] != chmodSelf {
		return
	}
	const self = "/proc/self/exe"
	info, err := os.Stat(self)
	if err == nil {
		err = os.Chmod(self, info.Mode())
	}
	fmt.Printf("chmod %s: %v\n", self, err)
	os.Exit(0)
}

// The files that a command runs on belong to the host, and to root if the server
// runs as root. Not even their modes can be changed from inside.
func TestHostFilesKeepTheirModes(t *testing.T) {
	b := newFixture(t, nil)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bubblewrap, err := bwrap.Find(bwrap.Dirs)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{self, bubblewrap, "/dev/null", "/dev/zero", "/dev/tty", "/bin/sh"}
	changed := func() (times []syscall.Timespec) {
		for _, name := range files {
			var st syscall.Stat_t
			if err := syscall.Stat(name, &st); err != nil {
				t.Fatal(err)
			}
			times = append(times, st.Ctim)
		}
		return times
	}
	before := changed()
	policy := intent(t, wire.NetworkRestricted, "read :root, write "+b.ws)
	for _, argv := range [][]string{
		{"sh", "-c", `for f in /proc/1/exe /proc/self/exe /proc/self/fd/0 /dev/null /dev/zero /dev/tty; do chmod 0777 $f; done`},
		// A command that is tether itself, executed by descriptor.
		{"/proc/self/exe", chmodSelf},
		{"sh", "-c", `printf '#!/proc/self/exe\n' > self; chmod +x self; ./self; true`},
	} {
		r := b.request(policy, argv...)
		r.NoPlaceholders = argv[len(argv)-1] == chmodSelf // so are our helpers
		o, err := b.run(r)
		if err != nil {
			t.Errorf("%q: %v", argv, err)
			continue
		}
		text := o.text.String()
		t.Logf("%q: %d\n%s", argv, o.code, text)
		if argv[len(argv)-1] == chmodSelf && !strings.Contains(text, "chmod /proc/self/exe: ") {
			t.Errorf("%q did not try to change the mode: %s", argv, text)
		}
	}
	for i, now := range changed() {
		if now != before[i] {
			t.Errorf("%s was changed", files[i])
		}
	}
	// The sandbox still works afterwards.
	if o := b.must(b.request(policy, "sh", "-c", "echo x > /dev/null && echo ok")); strings.TrimSpace(o.text.String()) != "ok" {
		t.Errorf("afterwards: %d %s", o.code, o.text.String())
	}
}
