package settings

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// A pattern that does not fit on the disk leaves nothing behind: its beginning would allow another host, or each port of it.
func TestHostsFileOnAFullDisk(t *testing.T) {
	const before = "a.example:443\n"
	f := HostsFile{filepath.Join(t.TempDir(), "allowed-hosts")}
	if err := os.WriteFile(f.Path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &usual); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(len(before) + len("b.example")), Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	err := f.Add("b.example:443")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &usual); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(f.Path)
	if err == nil || string(text) != before {
		t.Errorf("%v, and the file has %q", err, text)
	}
	if err := f.Add("b.example:443"); err != nil {
		t.Error(err)
	}
}
