package confined

import (
	"os"
	"testing"
)

// A whole tree: modes, links and merging.
func TestCopyTree(t *testing.T) {
	b := newFixture(t, nil)
	src, dst := b.out+"/tree", b.ws+"/copied"
	b.must(os.MkdirAll(src+"/deep/.git", 0o755)) // .git is protected only directly below a root
	b.write(src+"/deep/.git/config", "x")
	b.write(src+"/run", "program")
	b.must(os.Chmod(src+"/run", 0o751))
	b.must(os.Symlink("run", src+"/link"))
	b.must(os.MkdirAll(dst+"/deep", 0o755))
	b.write(dst+"/run", "something longer than that")
	b.write(dst+"/kept", "kept")
	b.must(b.files(workspace).Copy(t.Context(), src, dst, true))
	for name, want := range map[string]string{"/run": "program", "/deep/.git/config": "x", "/kept": "kept", "/link": "program"} {
		if text, err := os.ReadFile(dst + name); err != nil || string(text) != want {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
	if info, err := os.Stat(dst + "/run"); err != nil || info.Mode() != 0o751 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if target, err := os.Readlink(dst + "/link"); err != nil || target != "run" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	// The second copy finds its own link.
	if got := outcome(b.files(workspace).Copy(t.Context(), src, dst, true)); got != "-32603 File exists (os error 17)" {
		t.Errorf("again: %q", got)
	}
	if got := outcome(b.files(workspace).Copy(t.Context(), src, dst, false)); got != "-32600 fs/copy requires recursive: true when sourcePath is a directory" {
		t.Errorf("not recursive: %q", got)
	}
	if text, err := os.ReadFile(b.ws + "/a.txt"); err != nil || string(text) != "inside" {
		t.Errorf("%q %v", text, err)
	}
}

// A copy has neither the set-user-ID nor the set-group-ID bit.
func TestCopySetID(t *testing.T) {
	b := newFixture(t, nil)
	b.write(b.ws+"/program", "") // a write would remove the bits
	b.must(os.Chmod(b.ws+"/program", 0o755|os.ModeSetuid|os.ModeSetgid|os.ModeSticky))
	b.must(b.files(workspace).Copy(t.Context(), b.ws+"/program", b.ws+"/copy", false))
	if info, err := os.Stat(b.ws + "/copy"); err != nil || info.Mode() != 0o755|os.ModeSticky {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}
