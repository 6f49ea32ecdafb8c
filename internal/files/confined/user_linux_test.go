package confined

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// The same tests pass as an ordinary user.
func TestAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this needs root, to become another user")
	}
	const user = 1234
	dir, err := os.MkdirTemp("/tmp", "tether-as-user") // every user can enter its parents
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "test")
	if err := executable.Copy(self, copied); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, "-test.run", "^(TestRows|TestVisibleFiles|TestHelperBesidePlaceholdersOfCommand|TestCopyTree|TestHidden.*)$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
