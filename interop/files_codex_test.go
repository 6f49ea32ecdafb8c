//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// patchApproval is the method by which the client asks its user about a patch.
const patchApproval = "item/fileChange/requestApproval"

// A fileTap records the requests about files between client and executor, with their answers.
type fileTap struct {
	mu    sync.Mutex
	calls []*tappedFileCall
}

// A tappedFileCall is one request about a file.
type tappedFileCall struct {
	link     int
	id       string
	method   string
	Path     string          `json:"path"`
	Sandbox  json.RawMessage `json:"sandbox"` // "null" for none
	answered bool
	err      *wire.Error
}

func (w *fileTap) tap(m cable.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m.From == cable.FromClient && strings.HasPrefix(m.Method, "fs/"):
		c := &tappedFileCall{link: m.Link, id: m.ID, method: m.Method}
		if json.Unmarshal(m.Params, c) == nil {
			w.calls = append(w.calls, c)
		}
	case m.From == cable.FromServer && strings.HasPrefix(m.AnswerTo, "fs/"):
		for _, c := range w.calls {
			if c.link == m.Link && c.id == m.ID && !c.answered {
				c.answered, c.err = true, m.Error
			}
		}
	}
}

// about lists the requests about a path.
func (w *fileTap) about(path string) (calls []tappedFileCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.Path == "file://"+path {
			calls = append(calls, *c)
		}
	}
	return calls
}

// newPatcher starts the client with a thread that may write its workspace, in front
// of a new server of the given product. The model applies one patch a request.
func newPatcher(t *testing.T, who product, patches func(workspace string) []string) (*appServer, *fileTap) {
	t.Helper()
	tethertest.NeedBubblewrap(t)
	client := program(t, ref)
	server := startServer(t, who)
	t.Cleanup(server.stop)
	var each []string
	a := &appServer{t: t, wire: newWireTap(), model: newModel(t, func(turn int, _ []string) modelItem {
		if turn > len(each) {
			return say("done")
		}
		return modelItem{"type": "custom_tool_call", "name": "apply_patch", "call_id": canonical(turn), "input": each[turn-1]}
	})}
	files := &fileTap{}
	line := tethertest.LayCableWith(t, cable.Config{Target: server.url, Tap: files.tap})
	home := codexHome(t, a.model.URL)
	a.workspace = filepath.Join(home, "ws")
	each = patches(a.workspace)
	a.launch(client, home, line.URL())
	a.open("workspace-write", "on-request")
	return a, files
}

// patchStatuses plays one turn and returns how its patches ended.
func (a *appServer) patchStatuses() (statuses []string) {
	a.t.Helper()
	a.call("turn/start", map[string]any{"threadId": a.thread, "input": []map[string]any{{"type": "text", "text": "do it"}}})
	for {
		m := a.next()
		switch m.Method {
		case "turn/completed":
			return statuses
		case "item/completed":
			var done struct {
				Item struct {
					Type   string `json:"type"`
					Status string `json:"status"`
				} `json:"item"`
			}
			if json.Unmarshal(m.Params, &done) == nil && done.Item.Type == "fileChange" {
				statuses = append(statuses, done.Item.Status)
			}
		}
	}
}

func patch(lines ...string) string {
	return "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	if content, err := os.ReadFile(path); string(content) != want {
		t.Errorf("%s holds %q (%v), want %q", path, content, err, want)
	}
}

// wantConfined checks that a request of this method about the path was answered,
// and that the last one came with a sandbox that has part in it.
func wantConfined(t *testing.T, files *fileTap, method, path, part string) {
	t.Helper()
	var last *tappedFileCall
	for _, c := range files.about(path) {
		if c.method == method {
			last = &c
		}
	}
	switch {
	case last == nil:
		t.Errorf("no %s of %s", method, path)
	case !last.answered || last.err != nil:
		t.Errorf("%s of %s was answered: %t, with error %v", method, path, last.answered, last.err)
	case !strings.Contains(string(last.Sandbox), `"restricted"`) || !strings.Contains(string(last.Sandbox), part):
		t.Errorf("%s of %s has the sandbox %s, want one with %s", method, path, last.Sandbox, part)
	}
}

// TestFilesCodexApplyPatch: the real client changes, adds, deletes and moves files of the workspace by a patch. All requests are
// confined, and the user is not asked.
func TestFilesCodexApplyPatch(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		a, files := newPatcher(t, who, func(string) []string {
			return []string{patch("*** Update File: old.txt", "@@", " alpha", "-beta", "+BETA", " gamma",
				"*** Add File: new/deep/added.txt", "+first", "+second", "*** Delete File: gone.txt",
				"*** Update File: from.txt", "*** Move to: moved/to.txt", "@@", " one", "-two", "+2")}
		})
		at := func(name string) string { return filepath.Join(a.workspace, name) }
		for name, content := range map[string]string{"old.txt": "alpha\nbeta\ngamma\n", "gone.txt": "bye\n", "from.txt": "one\ntwo\n"} {
			if err := os.WriteFile(at(name), []byte(content), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(a.patchStatuses(), " "); got != "completed" || len(a.asked) != 0 {
			t.Errorf("the patch ended with %q, and the user was asked %+v", got, a.asked)
		}

		wantContent(t, at("old.txt"), "alpha\nBETA\ngamma\n")
		wantContent(t, at("new/deep/added.txt"), "first\nsecond\n")
		wantContent(t, at("moved/to.txt"), "one\n2\n")
		for _, name := range []string{"gone.txt", "from.txt", ".git", ".agents", ".codex", ".aws"} {
			if exists(at(name)) {
				t.Errorf("%s is there", name)
			}
		}
		if info, err := os.Stat(at("old.txt")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("old.txt: %v, %v, want its mode kept", info, err)
		}
		const roots = `"project_roots"`
		wantConfined(t, files, "fs/readFile", at("old.txt"), roots)
		wantConfined(t, files, "fs/writeFile", at("old.txt"), roots)
		wantConfined(t, files, "fs/createDirectory", at("new/deep"), roots)
		wantConfined(t, files, "fs/writeFile", at("new/deep/added.txt"), roots)
		wantConfined(t, files, "fs/remove", at("gone.txt"), roots)
		wantConfined(t, files, "fs/remove", at("from.txt"), roots)
	})
}

// TestFilesCodexApplyPatchOutside: for a patch of a file outside the workspace the client asks its user. If the user declines,
// nothing is sent. If the user approves, the sandbox of the request has one more writable directory. A patch through a link that
// leads outside is refused by the executor, because the client does not know the link; then the user is asked.
func TestFilesCodexApplyPatchOutside(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		outside := ""
		a, files := newPatcher(t, who, func(workspace string) []string {
			outside = filepath.Join(filepath.Dir(workspace), "outside")
			return []string{
				patch("*** Add File: "+outside+"/declined.txt", "+no"),
				patch("*** Add File: "+outside+"/approved.txt", "+yes"),
				patch("*** Add File: link/evil.txt", "+evil"),
			}
		})
		if err := os.Mkdir(outside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(a.workspace, "link")); err != nil {
			t.Fatal(err)
		}
		a.user = func(r approvalRequest) string {
			if len(a.asked) == 2 {
				return "accept"
			}
			return "decline"
		}
		if statuses := strings.Join(a.patchStatuses(), " "); statuses != "declined completed declined" {
			t.Errorf("the patches ended with %q, want declined completed declined", statuses)
		}
		if len(a.asked) != 3 {
			t.Fatalf("the user was asked %d times, want 3: %+v", len(a.asked), a.asked)
		}
		for _, r := range a.asked {
			if r.Method != patchApproval {
				t.Errorf("the user was asked %s %s, want questions about patches", r.Method, r.Raw)
			}
		}

		if calls := files.about(outside + "/declined.txt"); exists(outside+"/declined.txt") || len(calls) != 0 {
			t.Errorf("there are requests although the user has declined: %+v", calls)
		}
		wantContent(t, outside+"/approved.txt", "yes\n")
		wantConfined(t, files, "fs/writeFile", outside+"/approved.txt", `"file://`+outside+`"`)
		if exists(outside + "/evil.txt") {
			t.Error("a link in the workspace leads out of the sandbox")
		}
		var refusals []string
		for _, c := range files.about(filepath.Join(a.workspace, "link/evil.txt")) {
			if c.method == "fs/writeFile" {
				refusals = append(refusals, fmt.Sprint(c.err))
			}
		}
		if len(refusals) != 1 || !strings.Contains(refusals[0], "Read-only file system (os error 30)") {
			t.Errorf("writes through the link were answered %q, want one refusal", refusals)
		}
	})
}
