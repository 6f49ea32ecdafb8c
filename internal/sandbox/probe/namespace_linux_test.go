package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNamespacesAsRoot(t *testing.T) {
	asRoot(t)
	before := hostState(t)
	for _, kind := range []string{"net", "mnt", "pid", "ipc", "uts"} {
		expect(t, "ok", "unshare", kind)
	}
	expect(t, "ok", "chroot", "/")
	expect(t, "chroot: ENOENT", "chroot", filepath.Join(t.TempDir(), "x"))
	expect(t, "ok", "setuid", "65534")
	expect(t, "ok", "setns", "/proc/self/ns/uts")
	expect(t, "ok", "mount-tmpfs", t.TempDir())
	expect(t, "mount-tmpfs: ENOENT", "mount-tmpfs", filepath.Join(t.TempDir(), "x"))
	expect(t, "ok", "umount", "/proc")
	expect(t, "umount: EINVAL", "umount", t.TempDir())
	expect(t, "ok", "remount-rw", "/")
	expect(t, "remount-rw: EINVAL", "remount-rw", t.TempDir())
	for _, probe := range []string{"nested-proc", "nested-cgroup"} {
		if r := run(t, probe); r.code != exitFailed || !strings.Contains(r.out, "\nESCAPED ") {
			t.Errorf("%s: %+v", probe, r)
		}
	}
	unchanged(t, before)
}

// Without a sandbox the nested namespace is not contained: nested must print
// that, and leave no file.
func TestNestedWithoutSandbox(t *testing.T) {
	if r := run(t, "unshare", "user"); r.out != "ok" {
		t.Skipf("no user namespaces here: %s", r.out)
	}
	before := hostState(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "nested", dir, file)
	if r.code != exitFailed || !strings.HasSuffix(r.out, "ESCAPED "+dir+" "+file) {
		t.Errorf("got %+v", r)
	}
	contains(t, file, "x")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
	unchanged(t, before)
	expect(t, "ok", "clone3", "user")
}

// The same inside bubblewrap, where the mounts are locked.
func TestNestedInBubblewrap(t *testing.T) {
	bwrap := needs(t, "bwrap")
	dir := t.TempDir()
	inside := func(args ...string) report {
		c := command(t, args...)
		c.Args = append([]string{bwrap, "--unshare-user", "--unshare-pid", "--cap-drop", "ALL",
			"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys",
			"--perms", "000", "--tmpfs", dir, "--remount-ro", dir, "--"}, c.Args...)
		c.Path = bwrap
		return finish(t, c)
	}
	if r := inside("ok"); r.code != exitOK {
		t.Skipf("bubblewrap does not work here: %s", r.err)
	}
	r := inside("nested", dir)
	if r.code != exitOK || !strings.HasSuffix(r.out, "\ncontained") || !strings.Contains(r.out, "umount "+dir+": EINVAL") {
		t.Errorf("nested: %+v", r)
	}
	r = inside("nested-proc")
	if r.code != exitOK || !strings.HasSuffix(r.out, "\ncontained") || !strings.Contains(r.out, "mount /proc: EPERM") {
		t.Errorf("nested-proc: %+v", r)
	}
	for want, args := range map[string][]string{
		"mount-tmpfs: EPERM":     {"mount-tmpfs", "/tmp"},
		"umount: EPERM":          {"umount", "/proc"},
		"remount-rw: EPERM":      {"remount-rw", "/"},
		"chroot: EPERM":          {"chroot", "/"},
		"unshare: EPERM":         {"unshare", "mnt"},
		"setuid: EINVAL":         {"setuid", "12345"},
		"open-tree: EPERM":       {"open-tree"},
		"fsopen: EPERM":          {"fsopen"},
		"move-mount: EPERM":      {"move-mount"},
		"mount-setattr: EPERM":   {"mount-setattr"},
		"pivot-root: EPERM":      {"pivot-root"},
		"reboot: EPERM":          {"reboot"},
		"swapon: EPERM":          {"swapon"},
		"fanotify: EPERM":        {"fanotify"},
		"mknod: EROFS":           {"mknod", "/usr/n"},
		"write-file: EROFS open": {"write-file", "/usr/n"},
		"mkdir: EROFS":           {"mkdir", "/usr/n"},
		"ok":                     {"unshare", "user"},
	} {
		if r := inside(args...); r.out != want {
			t.Errorf("%q: %+v, want %q", args, r, want)
		}
	}
}
