package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// anotherUser is neither root nor the ordinary user.
const anotherUser = ordinaryUser + 1

// Protected names that another user has made in /tmp do not prevent starts, do not change what a command may write, and
// cannot be changed by commands.
func TestAdversarySharedDirectory(t *testing.T) {
	if len(suite.accounts) < 2 {
		need.CannotRun(t, "needs root, to make names of others")
	}
	notForReference(t, "it is not attacked")
	sharedTmp.Lock()
	defer sharedTmp.Unlock()
	ownTmp()
	for _, a := range suite.accounts { // one after the other: they share /tmp
		t.Run(a.name, func(t *testing.T) { sharedNames(t, a) })
	}
}

func sharedNames(t *testing.T, a *account) {
	fx, s := attackServer(t, a)
	for name, c := range map[string]struct {
		create func(at string) error
		want   string // the state on the host afterwards
	}{
		"link to nothing":       {func(at string) error { return os.Symlink("x", at) }, "-> x"},
		"link to the workspace": {func(at string) error { return os.Symlink(fx.ws+"/sub", at) }, "-> " + fx.ws + "/sub"},
		"loop":                  {func(at string) error { return os.Symlink(filepath.Base(at), at) }, "-> "},
		"file with a gitdir":    {func(at string) error { return os.WriteFile(at, []byte("gitdir: "+fx.ws+"/sub\n"), 0o644) }, "-rw-r--r--"},
		"FIFO":                  {func(at string) error { return unix.Mkfifo(at, 0o666) }, "p"},
		"closed directory":      {func(at string) error { return os.Mkdir(at, 0) }, "d---------"},
		"closed file":           {func(at string) error { return os.WriteFile(at, nil, 0) }, "----------"},
	} {
		for _, protected := range []string{".git", ".codex"} {
			t.Run(name+" "+protected, func(t *testing.T) {
				at := "/tmp/" + protected
				fx.check(c.create(at))
				defer os.Remove(at)
				fx.check(os.Lchown(at, anotherUser, anotherUser))
				for _, p := range []policy{workspaceWrite(), workspaceWrite().in("/tmp", "$WS").with(protectedEntries()...)} {
					fx.attackName(t, s, p, at)
				}
				left, err := os.Lstat(at)
				fx.check(err)
				text := left.Mode().String()
				if target, err := os.Readlink(at); err == nil {
					text = "-> " + target
				}
				if !strings.HasPrefix(text, c.want) || left.Sys().(*syscall.Stat_t).Uid != anotherUser {
					t.Errorf("%s has become %s", at, text)
				}
			})
		}
	}
}

// attackName tries to change a name that another user has made, and to write where it leads.
func (fx *fixture) attackName(t *testing.T, s *scriptRunner, p policy, at string) {
	t.Helper()
	o := s.output(t, p, `name=`+at+`
echo sub > $WS/sub/f && echo wrote sub; rm -f $WS/sub/f
echo tmp > /tmp/$$.f && echo wrote tmp; rm -f /tmp/$$.f
rm -rf $name 2>/dev/null; mv -T $name /tmp/moved 2>/dev/null && echo ESCAPED by mv
ln -sfn /etc $name 2>/dev/null && echo ESCAPED by ln
ln -s /etc /tmp/$$.l; mv -T /tmp/$$.l $name 2>/dev/null && echo ESCAPED by mv onto; rm -f /tmp/$$.l
mkdir $name 2>/dev/null && echo ESCAPED by mkdir`)
	wants(t, fx, o, []string{"^wrote sub$", "^wrote tmp$"})
}
