package confined

import (
	"os"
	"testing"
)

// Another process, which may write the workspace, moves links while requests go
// through them. No protected name is created, and nothing outside is changed.
func TestSwappedLinks(t *testing.T) {
	b := newFixture(t, nil)
	b.write(b.out+"/payload", "gitdir: /somewhere")
	b.must(os.Symlink("nothing yet", b.ws+"/link"))
	b.must(os.Symlink("sub", b.ws+"/dir"))
	files := b.files(workspace)
	b.must(files.WriteFile(t.Context(), b.ws+"/x", nil, true))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			target, dir := []string{"sub/file", ".git", b.out + "/secret.txt"}[i%3], []string{"sub", ".", b.out}[i%3]
			os.Symlink(target, b.ws+"/link.new")
			os.Rename(b.ws+"/link.new", b.ws+"/link")
			os.Symlink(dir, b.ws+"/dir.new")
			os.Rename(b.ws+"/dir.new", b.ws+"/dir")
		}
	}()
	written := 0
	for range 300 {
		ctx := t.Context()
		for _, err := range []error{
			files.WriteFile(ctx, b.ws+"/link", []byte("data"), true),
			files.Copy(ctx, b.out+"/payload", b.ws+"/link", false),
			files.Copy(ctx, b.out+"/payload", b.ws+"/dir/.git", false),
			files.Copy(ctx, b.ws+"/link", b.ws+"/dir/.codex", false),
			files.CreateDirectory(ctx, b.ws+"/dir/.agents/x", true, true),
		} {
			if err == nil {
				written++
			}
		}
		if f, err := files.Replace(ctx, b.ws+"/link"); err == nil {
			f.Close()
		}
		for _, name := range []string{".git", ".codex", ".agents"} {
			if b.exists(b.ws+"/"+name) || b.exists(b.out+"/"+name) {
				t.Fatalf("%s has come into being", name)
			}
			os.RemoveAll(b.ws + "/sub/" + name)
		}
		os.Remove(b.ws + "/sub/file")
	}
	close(stop)
	<-stopped
	if text, _ := os.ReadFile(b.out + "/secret.txt"); string(text) != "outside" {
		t.Errorf("the file outside says %q", text)
	}
	if written == 0 {
		t.Error("nothing was written at all")
	}
	t.Log(written, "of 1500 requests went well")
}
