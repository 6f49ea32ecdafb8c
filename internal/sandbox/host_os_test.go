//go:build unix

package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOSHost(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"ws/sub", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ws/.git"), []byte("gitdir: sub\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("ws", filepath.Join(dir, "alias")); err != nil {
		t.Fatal(err)
	}
	intent := intentOf(t, policyWN+", deny glob:"+dir+"/o*", roots(t, dir+"/alias"))
	policy, plan, err := compiled(OS{}, intent, Process{Cwd: dir + "/alias"})
	if err != nil {
		t.Fatal(err)
	}
	if policy.Cwd != dir+"/ws" {
		t.Errorf("cwd %s", policy.Cwd)
	}
	for p, want := range map[string]Effect{
		"/ws/n": HostWritable, "/ws/.git": HostReadable, "/ws/sub/n": HostReadable, "/ws/.codex": Hidden,
		"/out": Hidden, "/n": HostReadable,
	} {
		if got := plan.Effect(dir + p); got != want {
			t.Errorf("%s: %v, want %v in\n%v", p, got, want, plan)
		}
	}
}

func TestCanCreate(t *testing.T) {
	dir := t.TempDir()
	if !(OS{}).CanCreate(dir) {
		t.Error("an own directory")
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if !(OS{}).CanCreate(dir) {
		t.Error("an own directory whose mode could be changed")
	}
	if os.Geteuid() != 0 && (OS{}).CanCreate("/") {
		t.Error("the root as an ordinary user")
	}
}
