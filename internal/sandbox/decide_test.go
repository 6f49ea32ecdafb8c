package sandbox

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// probes returns the real paths that are worth checking.
func probes(h Host, policy *Policy, plan *Plan) []string {
	var names []string
	add := func(p string) {
		names = append(names, p, strings.TrimSuffix(p, "/")+"/new")
	}
	if m, ok := h.(memHost); ok {
		for p := range m {
			if at := newFinder(h, nil).find(p); at.exists() {
				add(at.path)
			}
		}
	}
	for p := range policy.rules.byPath {
		add(p)
	}
	for _, op := range plan.Ops {
		add(op.Path)
	}
	return names
}

// A row is one row of the behaviour table about decisions. want lists paths with
// the effect of the plan: w writable, r readable, - hidden, p private.
type row struct {
	id      string
	host    string // beside the fixture
	entries string
	options []intentOption
	roots   string // workspace roots; empty: /fx/ws
	process *Process
	want    string
	err     string
}

// certHost has certificates, and another file beside them.
const certHost = "/srv/ca/c.pem /srv/ca/key /srv/x"

// certs returns a process in a managed network that trusts the certificates
// in file.
func certs(file string, private ...string) *Process {
	return &Process{Cwd: "/fx/ws", Env: []string{"SSL_CERT_FILE=" + file}, Private: private, EnforceManagedNetwork: true}
}

var tmpEnv = Process{Cwd: "/fx/ws", Env: []string{"TMPDIR=/var/tmp/mine"}}

var rows = []row{
	{id: "R01", entries: policyRO, want: "r/fx/out/secret.txt"},
	{id: "R02", entries: policyMR, want: "p/fx/out/secret.txt r/fx/ws/a.txt r/usr/bin/sh"},
	{id: "R06", entries: policyRO + ", deny /fx/out/secret.txt", want: "-/fx/out/secret.txt r/fx/out"},
	{id: "R07", entries: policyRO + ", deny /fx/out", want: "-/fx/out -/fx/out/secret.txt"},
	{id: "R08", host: "/fx/out/open/", entries: policyRO + ", deny /fx/out, write /fx/out/open", want: "w/fx/out/open -/fx/out -/fx/out/secret.txt"},
	{id: "R09", host: "/fx/out/open/f", entries: policyRO + ", deny /fx/out, read /fx/out/open", want: "r/fx/out/open/f -/fx/out"},
	{id: "R10", host: "/fx/ws/x.env /fx/ws/d/y.env /fx/ws/d/n", entries: policyWN + ", deny glob:/fx/ws/**/*.env", want: "-/fx/ws/x.env -/fx/ws/d/y.env w/fx/ws/d/n w/fx/ws/late.env"},
	{id: "R11", host: "/fx/ws/x.env", entries: policyWN + ", deny glob:**/*.env", want: "-/fx/ws/x.env"},
	{id: "R12", host: "/fx/ws/x.env", entries: policyWN + ", deny glob:codex-project-roots://**/*.env", want: "-/fx/ws/x.env"},
	{id: "R13", host: "/fx/ws/x.env /fx/ws/d/y.env", entries: policyWN + ", deny glob:**/*.env", options: []intentOption{depth(1)}, want: "-/fx/ws/x.env w/fx/ws/d/y.env"},
	{id: "R14", entries: policyRO + ", deny glob:/**/*.env", err: "unreadable glob `/**/*.env` cannot be safely expanded; use a pattern with a non-root directory prefix"},
	{id: "R15", entries: policyRO + ", read glob:/fx/**", want: "r/fx/out/secret.txt"},
	{id: "R16", entries: policyRO + ", write glob:/fx/**", want: "r/fx/out/secret.txt"},
	{id: "R17", host: "/fx/ws/private/k", entries: policyWN + ", deny glob:/fx/ws/priv*", want: "-/fx/ws/private/k"},
	{id: "R18", host: "/fx/ws/l->/fx/out/secret.txt", entries: policyWN + ", deny /fx/out/secret.txt", want: "-/fx/out/secret.txt"},
	{id: "R20", host: "/fx/l->out", entries: policyRO + ", deny /fx/l", want: "-/fx/out/secret.txt"},
	{id: "R21", host: "/fx/ws/lnk->/fx/out", entries: policyWN + ", deny /fx/ws/lnk/secret.txt", err: "cannot enforce sandbox deny-read path /fx/ws/lnk/secret.txt because it crosses writable symlink /fx/ws/lnk"},
	{id: "R22", entries: policyWN + ", deny /fx/ws/nope/deep", want: "-/fx/ws/nope -/fx/ws/nope/deep w/fx/ws/a.txt"},
	{id: "R23", entries: policyRO + ", deny /fx/out/no", want: "r/fx/out"},
	{id: "R24", entries: policyMR + ", read /fx/no", want: "p/fx/no"},
	{id: "R25", entries: "deny root, " + policyMR, want: "r/fx/ws/a.txt p/fx/out r/usr/bin/sh"},
	{id: "R26", entries: policyRO + ", read /fx/out, deny /fx/out", want: "-/fx/out"},
	{id: "R27", entries: policyRO + ", read /fx/out, write /fx/out", want: "w/fx/out"},
	{id: "R28", process: &Process{}, want: "p/usr p/fx/ws"},

	{id: "W01", entries: policyRO, want: "r/fx/ws/n"},
	{id: "W02-W08", entries: policyWW, want: "w/fx/ws/n r/fx/out/n w/tmp/n r/var/tmp/n p/dev/shm/n r/etc/passwd"},
	{id: "W05", entries: policyWN, want: "r/tmp/n"},
	{id: "W19", entries: policyRW, want: "w/fx/out"},
	{id: "W20", entries: policyRW + ", deny /fx/out", want: "w/fx/other -/fx/out r/sys/kernel p/proc/1 p/dev/null"},
	{id: "W21", entries: policyRW + ", read /fx/out", want: "w/fx/other r/fx/out/secret.txt"},
	{id: "W22", host: "/fx/ws/a/b/ /fx/ws/a/k", entries: "write /fx/ws, deny /fx/ws/a, write /fx/ws/a/b", want: "w/fx/ws/x -/fx/ws/a/k w/fx/ws/a/b/f -/fx/ws/a/x"},
	{id: "W23", entries: "write /fx/ws, read /fx/ws/sub", want: "w/fx/ws/x r/fx/ws/sub/x"},
	{id: "W24", entries: policyRO + ", write /fx/ws/a.txt", want: "w/fx/ws/a.txt r/fx/ws/n"},
	{id: "W25", entries: policyRO + ", write /fx/no", want: "r/fx/no"},
	{id: "W26", host: "/fx/w2/", entries: policyWN, roots: "/fx/ws /fx/w2", want: "w/fx/ws/x w/fx/w2/x"},
	{id: "W27", entries: policyWN, options: []intentOption{noRoots}, want: "r/fx/ws/x"},
	{id: "W28", host: "/fx/w2/", entries: policyWN, roots: "/fx/w2", want: "w/fx/w2/x r/fx/ws/x"},
	{id: "W29", host: "/fx/out/nw/", entries: policyWN + ", deny /fx/out", roots: "/fx/out/nw", want: "w/fx/out/nw/x -/fx/out"},
	{id: "W30", host: "/fx/ws/.git/ /fx/ws/inner/.git/", entries: policyWN, roots: "/fx/ws /fx/ws/inner", want: "w/fx/ws/inner/f r/fx/ws/.git/config r/fx/ws/inner/.git/config"},
	{id: "W31", host: "/fx/alias->ws", entries: policyWW, roots: "/fx/alias", process: &Process{Cwd: "/fx/alias"}, want: "w/fx/ws/x -/fx/ws/.git"},
	{id: "W31 below /tmp", host: "/tmp/alias->/fx/ws", entries: policyWW, roots: "/tmp/alias", err: "cannot let /tmp/alias be written because it crosses writable symlink /tmp/alias"},
	{id: "planted link", host: "/fx/ws/cache->/fx/out", entries: "read root, write /fx/ws, write /fx/ws/cache", err: "cannot let /fx/ws/cache be written because it crosses writable symlink /fx/ws/cache"},
	{id: "planted link on the way", host: "/fx/ws/a->/fx/out", entries: "read root, write /fx/ws, write /fx/ws/a/b", err: "crosses writable symlink /fx/ws/a"},
	{id: "planted links for each other", host: "/fx/ws/a->/fx/out /fx/ws/b->/fx/out", entries: "read root, write /fx/ws, write /fx/ws/a, write /fx/ws/b", err: "cannot let /fx/ws/a be written because it crosses writable symlink /fx/ws/a"},
	{id: "link in what it opens", host: "/fx/out/l->/fx/out", entries: "read root, write /fx/out/l", err: "crosses writable symlink /fx/out/l"},
	{id: "planted link to a protected name", host: "/fx/ws/.git/ /fx/ws/cache->.git", entries: "read root, write /fx/ws, write /fx/ws/cache", err: "crosses writable symlink /fx/ws/cache"},
	{id: "planted link below a protected name", host: "/fx/ws/.git/hooks/ /fx/ws/cache->.git/hooks", entries: "read root, write /fx/ws, write /fx/ws/cache", err: "crosses writable symlink /fx/ws/cache"},
	{id: "planted link to a gitdir", host: "/fx/ws/.git:gitdir:_gd /fx/ws/gd/ /fx/ws/cache->gd", entries: "read root, write /fx/ws, write /fx/ws/cache", err: "crosses writable symlink /fx/ws/cache"},
	{id: "planted link into what a glob hides", host: "/fx/ws/hidden/sub/ /fx/ws/cache->hidden/sub", entries: "read root, write /fx/ws, write /fx/ws/cache, deny glob:/fx/ws/hid*", err: "crosses writable symlink /fx/ws/cache"},
	{id: "planted link for everything", host: "/fx/ws/cache->/fx/out", entries: policyRW + ", read /fx/out, write /fx/ws/cache", err: "crosses writable symlink /fx/ws/cache"},
	{id: "link to a protected name", host: "/fx/ws/.git/ /fx/link->ws", entries: "read root, write /fx/ws, write /fx/link/.git", want: "w/fx/ws/.git/config"},
	{id: "link that gives nothing", host: "/fx/ws/cache->sub /fx/ws/sub/", entries: "read root, write /fx/ws, write /fx/ws/cache", want: "w/fx/ws/sub/x"},
	{id: "link where nothing is writable", host: "/fx/link->out", entries: "read root, write /fx/ws, write /fx/link", want: "w/fx/out/x r/fx/x"},
	{id: "W34", entries: policyWN, roots: "/fx/no", want: "r/fx/ws r/fx/no"},
	{id: "W36", host: "/fx/ws/lnk->/fx/out", entries: "write /fx/ws, read /fx/ws/lnk/x", err: "cannot enforce sandbox read-only path /fx/ws/lnk/x because it crosses writable symlink /fx/ws/lnk"},

	{id: "G01", host: "/fx/ws/.git/config", entries: policyWW, want: "r/fx/ws/.git/config r/fx/ws/.git/hooks"},
	{id: "G04-G08", entries: policyWN, want: "-/fx/ws/.git -/fx/ws/.codex/c -/fx/ws/.agents -/fx/ws/.aws"},
	{id: "G09", entries: policyWN, want: "w/fx/ws/sub/.git/config w/fx/ws/sub/.codex"},
	{id: "G10", host: "/fx/ws/.git:gitdir:_real.git /fx/ws/real.git/", entries: policyWN, want: "r/fx/ws/.git r/fx/ws/real.git/config"},
	{id: "G11", host: "/fx/ws/.git/", entries: policyWN + ", write roots/.git", want: "w/fx/ws/.git/config -/fx/ws/.codex"},
	{id: "G11 below", host: "/fx/ws/.git/hooks/", entries: "read root, write roots, write roots/.git/hooks", want: "w/fx/ws/.git/config w/fx/ws/.git/hooks"},
	{id: "G13", host: "/fx/ws/.git->sub", entries: policyWN, err: "cannot enforce sandbox read-only path /fx/ws/.git because it crosses writable symlink /fx/ws/.git"},
	{id: "G14", host: "/fx/ws/.codex->/fx/out", entries: "read root, write roots", err: "crosses writable symlink /fx/ws/.codex"},
	{id: "G15", entries: policyWW, want: "-/tmp/.git"},
	{id: "G16", host: "/fx/ws/.git/", entries: "read root, write roots", want: "r/fx/ws/.git/config -/fx/ws/.agents"},
	{id: "G18", host: "/fx/ws/.git/", entries: policyRW, want: "w/fx/ws/.git"},
	{id: "O06", host: "/fx/ws/.git/", entries: policyRW + ", deny /fx/out", want: "w/fx/ws/.git"},
	{id: "foreign link", host: "/tmp/+ ~/tmp/.git->x", entries: policyWW, want: "w/tmp/n w/tmp/x w/tmp/.git -/tmp/.codex -/fx/ws/.git"},
	{id: "foreign link into the workspace", host: "/tmp/+ ~/tmp/.aws->/fx/ws/sub", entries: policyWW, want: "w/fx/ws/sub/n"},
	{id: "foreign link named by an entry", host: "/tmp/+ ~/tmp/.git->/fx/ws/sub", entries: policyWN, roots: "/tmp /fx/ws", want: "w/tmp/n w/fx/ws/sub/n -/tmp/.codex"},
	{id: "foreign link that a command could remove", host: "/tmp/ ~/tmp/.git->x", entries: policyWW, err: "crosses writable symlink /tmp/.git"},
	{id: "foreign link that is covered", host: "/tmp/ ~/tmp/.git->/fx/ws/sub", entries: policyWW, process: &Process{Cwd: "/fx/ws", Covers: true}, want: "-/tmp/.git w/tmp/n w/fx/ws/sub/n"},
	{id: "foreign link named by an entry, covered", host: "/tmp/ ~/tmp/.git->/fx/ws/sub", entries: policyWN, roots: "/tmp /fx/ws", process: &Process{Cwd: "/fx/ws", Covers: true}, want: "-/tmp/.git w/tmp/n w/fx/ws/sub/n"},
	{id: "foreign link to something denied", host: "/tmp/+ ~/tmp/.git->x", entries: policyWW + ", deny /tmp/.git/y", err: "deny-read path /tmp/.git/y because it crosses writable symlink"},
	{id: "foreign link outside", host: "/fx/shared/+ ~/fx/shared/.git->/fx/out", entries: policyMR + ", read /fx/shared/.git", want: "r/fx/out/secret.txt"},
	{id: "own link beside others", host: "/tmp/+ /tmp/.git->x", entries: policyWW, err: "crosses writable symlink /tmp/.git"},
	{id: "foreign link that a grant goes through", host: "/tmp/+ ~/tmp/.git->/fx/out", entries: policyWW + ", write /tmp/.git", err: "crosses writable symlink /tmp/.git"},
	{id: "foreign gitdir", host: "/tmp/+ ~/tmp/.git:gitdir:_/fx/ws/sub", entries: policyWW, want: "w/fx/ws/sub/n r/tmp/.git"},
	{id: "foreign directory", host: "/tmp/+ ~/tmp/.git/ /tmp/.git/config", entries: policyWW, want: "r/tmp/.git/config w/tmp/n"},
	{id: "H05", host: "/fx/ws/!", entries: policyWN, want: "w/fx/ws/.git"},
	{id: "RN01", host: "/fx/ws/x/secret/k", entries: policyWN + ", deny /fx/ws/x/secret", want: "-/fx/ws/x/secret/k w/fx/ws/x/f"},

	{id: "D05", entries: policyMW, want: "p/newfile p/tmp/a"},
	{id: "D06", entries: policyRO + ", write /dev/shm", want: "w/dev/shm p/dev/null"},
	{id: "D06 read", entries: policyMR + ", read /dev/shm, deny /dev", want: "-/dev/shm"},
	{id: "V04", host: "/var/tmp/mine/", entries: "read root, write tmpdir", process: &tmpEnv, want: "w/var/tmp/mine/x r/var/tmp"},
	{id: "V06", entries: "read root, write tmpdir", want: "r/tmp r/var/tmp"},
	{id: "L01", entries: policyRO, options: []intentOption{legacyLandlock}, err: "filesystem-restricted execution requires bubblewrap to isolate app-server sockets"},
	{id: "L04", options: []intentOption{legacyLandlock, unrestricted}, want: "w/fx/out"},
	{id: "GL any depth", host: "/fx/ws/d/y.env", entries: policyWN + ", deny glob:/fx/ws/*.env", want: "-/fx/ws/d/y.env"},
	{id: "GL no wildcard", entries: policyWN + ", deny glob:/fx/ws/d", err: "unreadable glob `/fx/ws/d` cannot be safely expanded"},
	{id: "GL braces", entries: policyWN + ", deny glob:/fx/ws/{a}", err: "cannot be safely expanded"},
	{id: "GL link", host: "/fx/ws/x.env->/fx/out/secret.txt", entries: policyWN + ", deny glob:/fx/ws/*.env", err: "deny-read path"},
	{id: "GL link outside", host: "/fx/l/x.env->/fx/out/secret.txt", entries: policyWN + ", deny glob:/fx/l/*.env", want: "-/fx/out/secret.txt r/fx/l"},
	{id: "GL reopened", host: "/fx/ws/p/q/k.p", entries: policyWN + ", deny glob:/fx/ws/*p, write /fx/ws/p/q", want: "-/fx/ws/p w/fx/ws/p/q/n -/fx/ws/p/q/k.p"},
	{id: "control socket", host: "/run/docker.sock= /var/run->/run", entries: policyWN, options: []intentOption{network}, want: "-/run/docker.sock r/run"},
	{id: "control pipe without network", host: "/run/initctl= /dev/initctl->/run/initctl", entries: policyWN, want: "-/run/initctl r/run"},
	{id: "control pipe that an entry gives", host: "/run/initctl=", entries: policyWN + ", write /run/initctl", want: "w/run/initctl"},
	{id: "control socket that an entry gives", host: "/run/docker.sock=", entries: policyWN + ", write /run/docker.sock", options: []intentOption{network}, want: "w/run/docker.sock"},
	{id: "private", host: "/fx/ws/state/s", entries: policyWN + ", write /fx/ws/state/s", process: &Process{Private: []string{"/fx/ws/state"}}, want: "-/fx/ws/state/s w/fx/ws/x"},
	{id: "runtime", host: "/opt/tether", entries: policyMR, process: &Process{Runtime: []string{"/opt/tether"}}, want: "r/opt/tether p/opt/other"},
	{id: "runtime denied", host: "/opt/tether", entries: policyRO + ", deny /opt/tether", process: &Process{Runtime: []string{"/opt/tether"}}, err: "is hidden by the sandbox"},
	{id: "cwd denied", entries: policyRO + ", deny /fx/ws", err: "the command's cwd /fx/ws is hidden"},
	{id: "proc denied", entries: policyRO + ", deny /proc", want: "-/proc/sys"},
	{id: "below proc denied", entries: policyRO + ", deny /proc/sys", err: "a path below /proc cannot be denied"},
	{id: "proc written", entries: policyRO + ", write /proc/sys", want: "p/proc/sys"},
	{id: "file in the way", entries: policyWN + ", deny /fx/ws/a.txt/x", want: "w/fx/ws/a.txt"},
	{id: "minimal does not narrow", entries: policyRW + ", read minimal, deny /fx/out", want: "w/usr/bin"},
	{id: "minimal and deny", entries: policyMR + ", deny /usr", process: &Process{}, want: "p/usr/lib p/usr"},
	{id: "order of paths", host: "/fx/ws/a/b/ /fx/ws/a.b/", entries: "write /fx/ws, deny /fx/ws/a, write /fx/ws/a/b, deny /fx/ws/a.b", want: "-/fx/ws/a.b w/fx/ws/a/b/n"},
	{id: "H04", entries: policyMR, process: &Process{NoProc: true}, want: "r/proc/1"},
	{id: "H04 root write", entries: policyRW + ", deny /fx/out", process: &Process{NoProc: true}, want: "r/proc/sys w/fx/ws"},
	{id: "certificates", host: certHost, entries: policyMR, process: certs("/srv/ca/c.pem"), want: "r/srv/ca/c.pem p/srv/ca/key p/srv/ca"},
	{id: "certificates below tmp", host: "/tmp/c.pem /tmp/key", entries: policyMR, process: certs("/tmp/c.pem"), want: "r/tmp/c.pem p/tmp/key"},
	{id: "certificates unclean", host: certHost, entries: policyMR, process: certs("/srv//x/../ca/./c.pem"), want: "r/srv/ca/c.pem"},
	{id: "certificates root denied", host: certHost, entries: "deny root, " + policyMR, process: certs("/srv/ca/c.pem"), want: "r/srv/ca/c.pem p/srv/ca/key"},
	{id: "certificates without managed network", host: certHost, entries: policyMR, process: &Process{Cwd: "/fx/ws", Env: []string{"SSL_CERT_FILE=/srv/ca/c.pem"}}, want: "p/srv/ca/c.pem"},
	{id: "certificates denied", host: certHost, entries: policyMR + ", deny /srv/ca/c.pem", process: certs("/srv/ca/c.pem"), want: "p/srv/ca/c.pem"},
	{id: "certificates below denied", host: certHost, entries: policyMR + ", deny /srv", process: certs("/srv/ca/c.pem"), want: "p/srv/ca/c.pem"},
	{id: "certificates in denied part of readable", host: certHost, entries: policyMR + ", read /srv, deny /srv/ca", process: certs("/srv/ca/c.pem"), want: "-/srv/ca/c.pem r/srv/x"},
	{id: "certificates by glob", host: certHost, entries: policyMR + ", deny glob:/srv/**/*.pem", process: certs("/srv/ca/c.pem"), want: "p/srv/ca/c.pem"},
	{id: "certificates private", host: certHost, entries: policyMR, process: certs("/srv/ca/c.pem", "/srv"), want: "p/srv/ca/c.pem"},
	{id: "certificates directory", host: certHost, entries: policyMR, process: certs("/srv/ca"), want: "p/srv/ca/key p/srv/ca/c.pem"},
	{id: "certificates socket", host: "/srv/s=", entries: policyMR, process: certs("/srv/s"), want: "p/srv/s"},
	{id: "certificates missing", entries: policyMR, process: certs("/srv/none"), want: "p/srv/none"},
	{id: "certificates relative", host: certHost, entries: policyMR, process: certs("srv/ca/c.pem"), want: "p/srv/ca/c.pem"},
	{id: "certificates link", host: certHost + " /opt/c->/srv/ca/c.pem", entries: policyMR, process: certs("/opt/c"), want: "r/srv/ca/c.pem p/opt/c"},
	{id: "certificates planted link", host: certHost + " /fx/ws/c->/srv/ca/c.pem", entries: policyMW, process: certs("/fx/ws/c"), want: "p/srv/ca/c.pem w/fx/ws/n"},
	{id: "certificates writable", host: "/fx/ws/c.pem", entries: policyMW, process: certs("/fx/ws/c.pem"), want: "w/fx/ws/c.pem"},
	{id: "M06", entries: policyRW, process: &Process{Cwd: "/fx/ws", EnforceManagedNetwork: true}, want: "w/fx/out w/fx/ws p/proc/sys"},
}

func TestRows(t *testing.T) {
	for _, row := range rows {
		t.Run(scenario.Name(row.id), func(t *testing.T) {
			process := &Process{Cwd: "/fx/ws"}
			if row.process != nil {
				process = row.process
			}
			options := row.options
			if row.roots != "" {
				options = []intentOption{roots(t, strings.Fields(row.roots)...)}
			}
			_, plan, err := compiled(newHost(fixture, row.host), intentOf(t, row.entries, options...), *process)
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Fatalf("got %v; want %s", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for want := range strings.FieldsSeq(row.want) {
				code := map[Effect]string{Hidden: "-", Private: "p", HostReadable: "r", HostWritable: "w"}
				if got := code[plan.Effect(want[1:])]; got != want[:1] {
					t.Errorf("%s: got %s, want %s in\n%v", want[1:], got, want[:1], plan)
				}
			}
		})
	}
}
