package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/wire"
)

func foreign(t *testing.T) wire.PathURI {
	t.Helper()
	u, err := wire.ParsePathURI("file:///C:/x")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestBindErrors(t *testing.T) {
	bad := foreign(t)
	const invalid = "'file:///C:/x' is invalid on 'linux'"
	entry := wire.SandboxEntry{Access: wire.AccessRead, Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: bad}}
	for name, row := range map[string]struct {
		change  intentOption
		process Process
		want    string
	}{
		"cwd":   {change: func(s *wire.Sandbox) { s.Cwd = &bad }, want: "sandbox cwd URI `file:///C:/x` is not valid on this exec-server host: " + invalid},
		"root":  {change: func(s *wire.Sandbox) { s.WorkspaceRoots = []wire.PathURI{bad} }, want: "sandbox workspace root URI `file:///C:/x` is not valid on this exec-server host: " + invalid},
		"entry": {change: func(s *wire.Sandbox) { s.Permissions.FileSystem.Entries = []wire.SandboxEntry{entry} }, want: "invalid sandbox permission path URI: " + invalid},
		"entry before cwd": {change: func(s *wire.Sandbox) {
			s.Cwd, s.Permissions.FileSystem.Entries = &bad, []wire.SandboxEntry{entry}
		}, want: "invalid sandbox permission path URI: " + invalid},
		"cwd before root": {change: func(s *wire.Sandbox) {
			s.PolicyContext = &wire.PolicyContext{Cwd: &bad, WorkspaceRoots: []wire.PathURI{bad}}
		}, want: "sandbox cwd URI `file:///C:/x` is not valid on this exec-server host: " + invalid},
		"mxc": {change: func(s *wire.Sandbox) { s.WindowsSandboxLevel = wire.WindowsMXC }, want: "native MXC is unavailable on this executor"},
		"absolute subpath": {change: func(s *wire.Sandbox) {
			s.Permissions.FileSystem.Entries = []wire.SandboxEntry{entryOf(t, "deny roots//etc")}
		}, want: `failed to prepare process sandbox: the subpath "/etc" of a project root is not a relative path`},
		"unknown kind": {change: func(s *wire.Sandbox) { s.Permissions.Type = "new" }, want: "unknown permission profile `new`"},
		"no network":   {change: func(s *wire.Sandbox) { s.Permissions.Network = "" }, want: "unknown network access ``"},
	} {
		t.Run(name, func(t *testing.T) {
			intent := intentOf(t, policyWN)
			if row.change != nil {
				row.change(intent)
			}
			_, err := Bind(intent, row.process, newHost(fixture))
			if err == nil || err.Error() != row.want {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
			checkError(t, err)
		})
	}
	var cwd wire.Cwd
	if err := wire.Decode([]byte(`"file:///C:/x"`), &cwd); err != nil {
		t.Fatal(err)
	}
	if _, err := NativeCwd(cwd); err == nil || err.Error() !=
		"failed to prepare process sandbox: command cwd URI `file:///C:/x` is not valid on this host: "+invalid {
		t.Error(err)
	}
}

// A missing cwd fails as without a sandbox (W33); the cwd of the sandbox may
// be missing (W34).
func TestCwd(t *testing.T) {
	host := newHost(fixture, "/fx/alias->ws")
	for cwd, want := range map[string]error{"/fx/no": syscall.ENOENT, "/fx/ws/a.txt": syscall.ENOTDIR, "/fx/ws/a.txt/x": syscall.ENOTDIR} {
		_, err := Bind(intentOf(t, policyWN), Process{Cwd: cwd}, host)
		if e, ok := errors.AsType[*CwdError](err); !ok || !errors.Is(e, want) {
			t.Errorf("%s: %v; want %v", cwd, err, want)
		}
	}
	intent := intentOf(t, policyWN)
	intent.Cwd = new(uri(t, "/fx/no"))
	policy, err := Bind(intent, Process{Cwd: "/fx/alias"}, host)
	if err != nil || policy.Cwd != "/fx/ws" {
		t.Errorf("got %+v, %v", policy, err)
	}
}

// O03, O04: a policy context replaces cwd and roots, also when it has none.
func TestPolicyContext(t *testing.T) {
	host := newHost(fixture, "/fx/w2/x.env /fx/ws/x.env")
	for name, row := range map[string]struct {
		context wire.PolicyContext
		ws, w2  Access
		ws2glob Access
	}{
		"other root": {context: wire.PolicyContext{Cwd: new(uri(t, "/fx/w2")), WorkspaceRoots: []wire.PathURI{uri(t, "/fx/w2")}}, ws: Read, w2: Write, ws2glob: Deny},
		"empty":      {ws: Read, w2: Read, ws2glob: Read},
	} {
		intent := intentOf(t, policyWN+", deny glob:*.env")
		intent.Cwd, intent.PolicyContext = new(uri(t, "/fx/out")), &row.context
		policy, err := Bind(intent, Process{Cwd: "/fx/ws"}, host)
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range map[string]Access{"/fx/ws/n": row.ws, "/fx/w2/n": row.w2, "/fx/w2/x.env": row.ws2glob} {
			if got, rule := policy.Decide(p); got != want {
				t.Errorf("%s: %s is %v by %v, want %v", name, p, got, rule, want)
			}
		}
	}
}

func TestShortcuts(t *testing.T) {
	host := newHost(fixture)
	for entries, want := range map[string][2]bool{ // full read, full write
		policyRO:                                {true, false},
		policyWW:                                {true, false},
		policyRW:                                {true, true},
		policyRO + ", " + policyRW:              {true, true},
		policyRW + ", read minimal":             {true, true},
		policyRW + ", read unknown":             {true, true},
		policyRW + ", read /fx":                 {true, false},
		policyRW + ", read /fx, write /fx":      {true, true},
		policyRW + ", read slash_tmp":           {true, false},
		policyRW + ", read tmpdir":              {true, false},
		policyRW + ", read roots":               {true, false},
		policyRW + ", write roots":              {true, true},
		policyRW + ", deny /fx/no":              {false, false},
		policyRW + ", read glob:/fx/*":          {true, false},
		policyRW + ", deny glob:/fx/*":          {false, false},
		policyRO + ", deny glob:/fx/ws/n*":      {false, false},
		policyMR:                                {false, false},
		"":                                      {false, false},
		"write /":                               {false, false},
		"deny root, " + policyRW:                {false, false},
		policyRW + ", read roots, write /fx/ws": {true, true},
	} {
		policy, err := Bind(intentOf(t, entries), Process{}, host)
		if err != nil {
			t.Errorf("%s: %v", entries, err)
		} else if got := [2]bool{policy.FullRead, policy.FullWrite}; got != want {
			t.Errorf("%s: got %v, want %v", entries, got, want)
		}
	}
}

// A rule has the name that the intent gives it, so that its author recognises it.
func TestDecideNamesRule(t *testing.T) {
	host := newHost(fixture, "/fx/ws/x.env /fx/alias->out /run/docker.sock= /state/")
	policy, err := Bind(intentOf(t, policyWN+", deny glob:*.env, deny /fx/alias", network), Process{Cwd: "/fx/ws", Private: []string{"/state"}}, host)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"/etc/passwd":      "entry :root, read",
		"/fx/ws/n":         "entry :project_roots, write",
		"/fx/ws/x.env":     "entry *.env, deny",
		"/fx/out/x":        "entry /fx/alias, deny",
		"/run/docker.sock": "control socket, deny",
		"/state/x":         "private to tether, deny",
	} {
		if _, rule := policy.Decide(p); rule.String() != want {
			t.Errorf("%s: %v; want %s", p, rule, want)
		}
	}
	long := Rule{Origin: FromEntry, Named: "/" + strings.Repeat("a/../", 1000) + "fx", Access: Read}
	if s := long.String(); len(s) > 600 || !strings.HasPrefix(s, "entry /a/../a") || !strings.HasSuffix(s, "a/../fx, read") {
		t.Errorf("got %s", s)
	}
	empty, err := Bind(intentOf(t, ""), Process{}, host)
	if err != nil {
		t.Fatal(err)
	}
	if access, rule := empty.Decide("/x"); access != Deny || rule.String() != "no entry" {
		t.Errorf("got %v, %v", access, rule)
	}
	roots := policy.WritableRoots()
	if len(roots) != 1 || roots[0].Path != "/fx/ws" || len(roots[0].CarveOuts) != 5 {
		t.Errorf("got %+v", roots)
	}
}

// While another sandbox has a placeholder at a protected name, the name counts
// as missing, so that this sandbox takes a lease of it too (PAR).
func TestPlaceholderOfAnotherSandbox(t *testing.T) {
	for _, row := range []struct{ held, policy, want string }{
		{"/fx/ws/.git/", policyWN, "placeholder /fx/ws/.git dir"},
		{"/fx/ws/nope", policyWN + ", deny /fx/ws/nope/deep", "placeholder /fx/ws/nope file"},
		{"/fx/ws/nope", policyWN + ", deny /fx/ws/nope", "placeholder /fx/ws/nope file"},
		{"/fx/ws/.git/", policyWN + ", deny /fx/ws/.git/a/b", "placeholder /fx/ws/.git"},
	} {
		process := Process{Cwd: "/fx/ws", Placeholder: func(p string) bool { return p == strings.TrimSuffix(row.held, "/") }}
		_, plan, err := compiled(newHost(fixture, row.held), intentOf(t, row.policy), process)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan.String(), row.want) {
			t.Errorf("while %s is held, %s gives\n%v", row.held, row.policy, plan)
		}
	}
}

func TestGlobLimits(t *testing.T) {
	host := newHost(fixture)
	for i := range maxGlobMatches {
		host.put(fmt.Sprintf("/fx/ws/many/f%d", i))
	}
	intent := intentOf(t, policyWN+", deny glob:/fx/ws/many/*")
	if _, err := Bind(intent, Process{}, host); err != nil {
		t.Fatal(err)
	}
	host.put("/fx/ws/many/last")
	_, err := Bind(intent, Process{}, host)
	const want = "failed to prepare process sandbox: unreadable glob expansion for /fx/ws/many matched more than 8192 paths"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// An unreadable directory hides nothing that the command could not reach
// either, unless the command could make it readable.
type lockedHost struct {
	memHost
	dir string
}

func (h lockedHost) ReadDir(p string) ([]fs.DirEntry, error) {
	if p == h.dir {
		return nil, fs.ErrPermission
	}
	return h.memHost.ReadDir(p)
}

func (h lockedHost) Lstat(p string) (fs.FileMode, error) {
	if below(p, h.dir) {
		return 0, fs.ErrPermission
	}
	return h.memHost.Lstat(p)
}

func TestUnreadable(t *testing.T) {
	for entries, ok := range map[string]bool{
		policyWN + ", deny glob:/fx/out/*":         true,
		policyWN + ", deny /fx/out/secret.txt":     true,
		"write /fx/out, deny /fx/out/secret.txt":   false,
		"write /fx, deny glob:/fx/**/*.env":        false,
		"write /fx/ws, deny glob:/fx/out/l/../x/*": true,
	} {
		_, _, err := compiled(lockedHost{newHost(fixture), "/fx/out"}, intentOf(t, entries), Process{})
		if ok != (err == nil) {
			t.Errorf("%s: %v", entries, err)
		}
	}
}

// Inside the sandbox the link to the certificates may be missing, so the variable
// names the file that was made readable.
func TestCertificatesAreNamedByTheirRealPath(t *testing.T) {
	host := newHost(fixture, certHost, "/opt/c->/srv/ca/c.pem")
	for file, want := range map[string]string{"/opt/c": "[{PWD /fx/ws} {SSL_CERT_FILE /srv/ca/c.pem}]", "/srv//ca/./c.pem": "[{PWD /fx/ws} {SSL_CERT_FILE /srv/ca/c.pem}]", "/srv/ca": "[{PWD /fx/ws}]"} {
		_, plan, err := compiled(host, intentOf(t, policyMR), *certs(file))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(plan.Env); got != want {
			t.Errorf("with %s the variables are %s, want %s", file, got, want)
		}
	}
}
