//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sandboxOutcome is the comparison of confined commands.
const sandboxOutcome comparison = "the answer to the start with its sandboxType, or the refusal with code and text; output per stream; " +
	"exit code; sandboxDenied in exited and in process/read; soundness of the numbers; the files of the host afterwards"

// A fixture has the files of a confined command: a workspace with a file and a directory, and a directory beside it that holds a
// secret. It is made again for each row.
type fixture struct {
	t   testing.TB
	top string // $FX
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t, ownDir(t, "rows")} // a name without any word of a denial
	if err := os.RemoveAll(f.top); err != nil {
		t.Fatal(err)
	}
	f.dir("ws/sub")
	f.dir("out")
	f.file("ws/a.txt", "inside")
	f.file("out/secret.txt", "secret")
	return f
}

func (f *fixture) dir(name string) {
	if err := os.MkdirAll(filepath.Join(f.top, name), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

// file writes a file of mode 0600, and the directories above it.
func (f *fixture) file(name, content string) {
	f.dir(filepath.Dir(name))
	if err := os.WriteFile(filepath.Join(f.top, name), []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) link(name, target string) {
	f.dir(filepath.Dir(name))
	if err := os.Symlink(f.expand(target), filepath.Join(f.top, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) hardLink(name, target string) {
	if err := os.Link(filepath.Join(f.top, target), filepath.Join(f.top, name)); err != nil {
		f.t.Fatal(err)
	}
}

// expand replaces $WS, $OUT and $FX by paths, and $FIRST by the name in / that leads there.
func (f *fixture) expand(s string) string {
	return strings.NewReplacer("$WS", f.top+"/ws", "$OUT", f.top+"/out", "$FX", f.top, "$FIRST", strings.Split(f.top, "/")[1]).Replace(s)
}

// state lists every file with its kind, mode and content, and for each path in others whether it exists. It removes those.
func (f *fixture) state(others []string) string {
	var b strings.Builder
	filepath.WalkDir(f.top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == f.top {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%v %s", info.Mode(), strings.TrimPrefix(path, f.top+"/"))
		if d.Type().IsRegular() {
			content, _ := os.ReadFile(path)
			if len(content) > longOutput {
				content = []byte(shorten(string(content)))
			}
			fmt.Fprintf(&b, " %q", content)
		}
		b.WriteString("\n")
		return nil
	})
	for _, path := range others {
		_, err := os.Lstat(path)
		fmt.Fprintf(&b, "%s exists: %t\n", path, err == nil)
		os.RemoveAll(path)
	}
	return b.String()
}

// An entries is the list of entries of a restricted profile, as JSON texts.
type entries []string

// special, at and glob make one entry each.
func special(kind, access string) string {
	return fmt.Sprintf(`{"path":{"type":"special","value":{"kind":%q}},"access":%q}`, kind, access)
}

func below(subpath, access string) string {
	return fmt.Sprintf(`{"path":{"type":"special","value":{"kind":"project_roots","subpath":%q}},"access":%q,"missing_path_behavior":"skip"}`, subpath, access)
}

func at(path, access string) string {
	return fmt.Sprintf(`{"path":{"type":"path","path":"file://%s"},"access":%q}`, path, access)
}

func glob(pattern, access string) string {
	return fmt.Sprintf(`{"path":{"type":"glob_pattern","pattern":%q},"access":%q}`, pattern, access)
}

// The policies that most rows use.
var (
	readOnly       = entries{special("root", "read")}
	rootRead       = special("root", "read")
	protectedNames = entries{below(".git", "read"), below(".agents", "read"), below(".codex", "read"), below(".aws", "read")}
	workspaceOnly  = entries{rootRead, special("project_roots", "write")}.and(protectedNames...)
	workspaceWrite = workspaceOnly.and(special("slash_tmp", "write"), special("tmpdir", "write"))
	minimalRead    = entries{special("minimal", "read"), special("project_roots", "read")}
	rootWrite      = entries{special("root", "write")}
)

func (e entries) and(more ...string) entries { return append(append(entries(nil), e...), more...) }

// intent is the sandbox member of a client; members in over win.
func (e entries) intent(network, over string) string {
	return intentFor(fmt.Sprintf(`{"type":"managed","file_system":{"type":"restricted","entries":[%s]},"network":%q}`,
		strings.Join(e, ","), network), over)
}

// intentFor is the sandbox member with these permissions.
func intentFor(permissions, over string) string {
	members := map[string]json.RawMessage{
		"permissions":                     json.RawMessage(permissions),
		"cwd":                             json.RawMessage(`"file://$WS"`),
		"workspaceRoots":                  json.RawMessage(`["file://$WS"]`),
		"windowsSandboxLevel":             json.RawMessage(`"disabled"`),
		"windowsSandboxProxySettingsMode": json.RawMessage(`"reconcile"`),
		"useLegacyLandlock":               json.RawMessage(`false`),
	}
	if over != "" {
		if err := json.Unmarshal([]byte("{"+over+"}"), &members); err != nil {
			panic("intentFor: " + over + ": " + err.Error())
		}
	}
	return canonical(members)
}

// A sandboxRow is one scenario of docs/scenarios.md: one confined command.
type sandboxRow struct {
	id      string // of the row
	policy  entries
	network string // "restricted" unless said
	over    string // more members of the intent
	intent  string // instead of the three above; "null" for none
	script  string // for sh
	argv    []string
	start   string // more members of the start
	with    func(f *fixture)
	others  []string // paths on the host to look at afterwards
	play    func(c *conn)
	differs []difference
	varies  []string // as in exchange
	asRoot  bool     // an ordinary user sees something else
}

// exchange returns the row as an exchange with the labels start, end, read and host.
func (r sandboxRow) exchange() exchange {
	return exchange{name: r.id, compares: sandboxOutcome, differs: r.differs, varies: r.varies, asRoot: r.asRoot, play: r.run}
}

// verdictAttempts is how often a row is played until the verdict is not too early.
const verdictAttempts = 5

// run plays the row. The reference reaches its verdict about a failure with the next output after the exit, or 20 ms later. Chance
// decides whether it has seen the words of a denial by then; if not, the row is played again.
func (r sandboxRow) run(p *player) {
	for n, begun := 1, len(p.log); ; n++ {
		r.runOnce(p)
		if p.who != ref || n == verdictAttempts || !verdictTooEarly(p.log[begun:]) {
			return
		}
		p.log = p.log[:begun]
	}
}

// deniedWords matches output that makes a failure in the sandbox count as denied.
var deniedWords = regexp.MustCompile(`(?i)operation not permitted|permission denied|read-only file system|seccomp|sandbox|landlock|failed to write file`)

// verdictTooEarly reports whether a confined command failed with the words of a denial and does not count as denied.
func verdictTooEarly(log []observation) bool {
	confined := false
	for _, o := range log {
		var end struct {
			ExitCode            int
			SandboxDenied       *bool
			Stdout, Stderr, Pty string
		}
		switch o.label[len("000 "):] {
		case "start":
			confined = strings.Contains(o.value, `"linuxSeccomp"`)
		case "end":
			if confined && json.Unmarshal([]byte(o.value), &end) == nil && end.ExitCode != 0 && end.SandboxDenied != nil && !*end.SandboxDenied &&
				deniedWords.MatchString(end.Stdout+"\n"+end.Stderr+"\n"+end.Pty) {
				return true
			}
		}
	}
	return false
}

func (r sandboxRow) runOnce(p *player) {
	f := newFixture(p.t)
	if r.with != nil {
		r.with(f)
	}
	intent, argv := r.intent, r.argv
	if intent == "" {
		network := r.network
		if network == "" {
			network = "restricted"
		}
		intent = r.policy.intent(network, r.over)
	}
	if argv == nil {
		argv = sh(r.script)
	}
	extra := `"cwd":"file://$WS"`
	if r.start != "" {
		extra += "," + r.start
	}
	c := p.open()
	reply := c.ask("start", "process/start", f.expand(startParams("p", argv, extra+`,"sandbox":`+intent)))
	if strings.Contains(reply, `"result"`) {
		if r.play != nil {
			r.play(c)
		}
		c.process("end", "p")
		p.note("read", readStatus(c.call("process/read", `{"processId":"p"}`)))
	} else {
		p.note("end", notStarted)
		p.note("read", notStarted)
	}
	p.note("host", f.state(r.others))
}

// notStarted stands for the end of a command whose start was refused.
const notStarted = "not started"

// readStatus returns an answer to process/read without the members that depend on the division into chunks, and without tether's
// additions.
func readStatus(reply string) string {
	var m struct {
		Result map[string]any `json:"result"`
	}
	if json.Unmarshal([]byte(reply), &m) != nil || m.Result == nil {
		return reply
	}
	for _, k := range []string{"chunks", "nextSeq", "tether", "tetherDenial", "tetherUsage"} {
		delete(m.Result, k)
	}
	return canonical(m.Result)
}

// refused returns the differences of a row whose start tether refuses.
func refused(reason string, code int, message string) []difference {
	return []difference{
		{"start", reason, canonical(map[string]any{"error": map[string]any{"code": code, "message": message}})},
		{"end", reason, notStarted}, {"read", reason, notStarted},
	}
}

// ends returns the differences of a row that ends in another way.
func ends(reason string, code int, denied bool, output map[string]string) []difference {
	end := map[string]any{"exitCode": code, "numbers": "sound", "sandboxDenied": denied}
	for stream, text := range output {
		end[stream] = text
	}
	return []difference{
		{"end", reason, canonical(end)},
		{"read", reason, canonical(map[string]any{"closed": true, "exitCode": code, "exited": true, "failure": nil, "sandboxDenied": denied})},
	}
}
