package conformance

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// A call is an attack by one system call that a probe makes.
type call struct {
	probe  string
	inside string // expected output under every policy, as a regular expression
	online string // expected output with the network, if it differs
	works  string // which accounts succeed without a sandbox: "all" or "root"; empty: on some machines none
}

// harmless is the output of calls that may succeed, because their effects stay inside the sandbox.
const harmless = `^ok$|: E(PERM|NOSYS|ACCES)\b`

func calls() []call {
	const eperm, killed = `: EPERM\b`, `^exit 159$`
	return []call{
		{probe: "socket inet stream", inside: eperm, online: "^ok$", works: "all"},
		{probe: "socket-high inet stream", inside: eperm, online: "^ok$", works: "all"},
		{probe: "socket-high vsock stream", inside: eperm, works: "all"},
		{probe: "socket vsock stream", inside: eperm, works: "all"},
		{probe: "socket netlink raw", inside: eperm, online: "^ok$", works: "all"},
		{probe: "socket packet raw", inside: eperm, works: "root"},
		{probe: "socket alg seqpacket", inside: eperm, online: `^ok$|: E`},
		{probe: "int80 getpid", inside: killed},
		{probe: "int80 socket", inside: killed},
		{probe: "x32 getpid", inside: `: ENOSYS\b`},
		{probe: "io-uring-setup", inside: eperm},
		{probe: "io-uring-enter", inside: eperm},
		{probe: "io-uring-register", inside: eperm},
		{probe: "userfaultfd", inside: harmless},
		{probe: "perf-event-open", inside: harmless},
		{probe: "keyctl", inside: eperm},
		{probe: "add-key", inside: eperm},
		{probe: "request-key", inside: eperm},
		{probe: "bpf", inside: eperm, works: "root"},
		{probe: "fanotify", inside: eperm},
		{probe: "kexec-load", inside: `: E(PERM|NOSYS)\b`},
		{probe: "init-module", inside: `: E(PERM|NOSYS)\b`},
		{probe: "reboot", inside: eperm},
		{probe: "swapon", inside: eperm},
		{probe: "open-tree", inside: eperm, works: "root"},
		{probe: "fsopen", inside: eperm, works: "root"},
		{probe: "move-mount", inside: eperm, works: "root"},
		{probe: "mount-setattr", inside: eperm, works: "root"},
		{probe: "mount-tmpfs $WS/sub", inside: eperm},
		{probe: "pivot-root", inside: eperm, works: "root"},
		{probe: "setns /proc/1/ns/mnt", inside: ofInit},
		{probe: "setns /proc/1/ns/net", inside: ofInit},
		{probe: "setns /proc/1/ns/pid", inside: ofInit},
		{probe: "setns /proc/1/ns/user", inside: `: E(INVAL|PERM|ACCES open)\b`},
		{probe: "unshare mnt", inside: eperm, works: "root"},
		{probe: "unshare net", inside: eperm, works: "root"},
		{probe: "open-by-handle $WS/a.txt", inside: eperm, works: "root"},
		{probe: "open-by-handle $OUT/secret.txt", inside: `: E(PERM|ACCES|NOENT)\b`, works: "root"},
		{probe: "chroot $WS", inside: eperm, works: "root"},
		{probe: "mknod $WS/device", inside: eperm, works: "root"},
		{probe: "ptrace-child", inside: eperm, online: "^ok$"},
		{probe: "ptrace-traceme", inside: eperm, online: "^ok$", works: "all"},
		{probe: "process-vm-readv", inside: eperm, online: "^ok$"},
		{probe: "process-vm-writev", inside: eperm, online: "^ok$"},
		{probe: "nested $OUT", inside: "^contained$"},
		{probe: "nested-proc", inside: "^contained$"},
		{probe: "nested-cgroup", inside: "^contained$"},
		{probe: "unshare cgroup", inside: eperm, works: "root"},
		{probe: "clone3 user", inside: `: ENOSYS\b`},
		{probe: "clone3 cgroup", inside: `: ENOSYS\b`},
	}
}

// callScript makes all calls, one after the other.
func callScript(list []call) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "echo '== %s'; $PROBE %s 2>/dev/null; echo exit $?\n", c.probe, c.probe)
	}
	return b.String()
}

// ofInit is the answer to attempts to use process 1: that of a native sandbox cannot be opened at all.
const ofInit = `: (EPERM|EACCES open)\b`

// Calls that go around the C library meet the same filter.
func TestAdversaryCalls(t *testing.T) {
	list := calls()
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		got := sections(s.output(t, c.policy, callScript(list)).stdout)
		for _, call := range list {
			want := call.inside
			if c.name == "network" && call.online != "" {
				want = call.online
			}
			if !regexp.MustCompile("(?m)" + want).MatchString(got[call.probe]) {
				t.Errorf("%s: %q, want %s", call.probe, got[call.probe], want)
			}
		}
		fx.intact(t)
	})
}

// Without a sandbox the same calls succeed, so the test above can fail.
func TestAdversaryCallsUnconfined(t *testing.T) {
	list := slices.DeleteFunc(calls(), func(c call) bool { return c.works == "" })
	eachAccount(t, func(t *testing.T, a *account) {
		_, s := attackServer(t, a)
		got := sections(s.output(t, unconfined(), callScript(list)).stdout)
		for _, call := range list {
			if (call.works == "all" || a.root()) && !strings.HasPrefix(got[call.probe], "ok") {
				if call.works == "root" && !canMount(t) {
					continue
				}
				t.Errorf("%s without a sandbox: %q", call.probe, got[call.probe])
			}
		}
	})
}

// canMount reports whether root may mount here. In most containers it may not.
func canMount(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`).FindSubmatch(status)
	if found == nil {
		t.Fatal("no capabilities in the status")
	}
	set, err := strconv.ParseUint(string(found[1]), 16, 64)
	return err == nil && set&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Process 1 of a sandbox has no more rights than the command, and holds nothing
// that leads outside.
func TestAdversaryInit(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		script := `"$ADV" init; grep -E '^(CapEff|CapPrm|CapInh|CapAmb|NoNewPrivs|Seccomp):' /proc/1/status
			tr '\0' '\n' < /proc/1/environ; cat /proc/1/root$OUT/secret.txt > /dev/null && echo secret is readable
			echo x > /proc/1/root$OUT/n; echo x > /proc/1/cwd/../out/n; ls /proc/1/root/proc/1/root/ > /dev/null
			cat $OUT/secret.txt > /dev/null && echo secret is readable; true`
		o := s.output(t, c.policy, script)
		wants(t, fx, o, []string{`^CapEff:\s+0+$`, `^CapPrm:\s+0+$`, `^CapInh:\s+0+$`, `^CapAmb:\s+0+$`, `^NoNewPrivs:\s+1$`, `^Seccomp:\s+2$`},
			serverSecret, `^descriptor \d+ /(?:var|home|root|tmp)`, `^descriptor \d+ socket:`, `^descriptor \d+ /dev/(pts|ptmx)`)
		closed := strings.Contains(o.stderr, "/proc/1/root/") // of a native sandbox, process 1 cannot be looked into
		if n := strings.Count(o.stdout, "secret is readable"); n != 0 && n != 2 && !closed {
			t.Errorf("process 1 sees other files than the command: %s", o.all)
		}
		fx.intact(t)
	})
}

// A command that becomes root in new namespaces cannot change the mounts of the sandbox.
func TestAdversaryNestedRoot(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a, func(fx *fixture) { fx.write("$WS/.git/config", "c\n") })
		o := s.output(t, c.policy, `"$ADV" unroot $OUT/secret.txt $OUT/n`)
		never := []string{`^write: ok`, `^pivot_root: ok`}
		if c.name == "root-deny" || c.name == "minimal" {
			never = append(never, "top secret")
		}
		wants(t, fx, o, []string{"^unshare: ok", "^mounts [1-9][0-9]*, unmounted 0,"}, never...)
		fx.intact(t)
		if c.name == "root-deny" {
			return // its command may write to .git
		}
		o = s.output(t, c.policy, `"$ADV" unroot $WS/a.txt $WS/.git/made`)
		wants(t, fx, o, []string{"^unshare: ok", "^read: ok"}, `^write: ok`)
	})
	t.Run("control", func(t *testing.T) { // in a sandbox without locks, everything can be undone
		if !canMount(t) {
			t.Skip("needs all capabilities")
		}
		fx := newFixture(t, suite.accounts[0])
		fx.addAttackPrograms()
		out := hostCommand(t, fx, "unshare", "--mount", "sh", "-c", `mount -t tmpfs none "$OUT" && umount "$OUT" && cat "$OUT/secret.txt"`)
		if !strings.Contains(out, secretText) {
			t.Errorf("without a user namespace in between: %s", out)
		}
	})
}

// No filter lets a command reach the key rings of its user, whatever the policy opens.
func TestAdversaryKeyRings(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		name := "tether-" + fx.mark
		s.output(t, unconfined(), "$ADV putkey '"+name+"' 'top secret'")
		if o := s.output(t, unconfined(), "$ADV getkey '"+name+"'"); !strings.Contains(o.stdout, "READ top secret") {
			need.CannotRun(t, "this machine has no key rings: %s", o.all)
		}
		all := append(policyCases(), policyCase{"read-only", readOnly()}, policyCase{"filter alone", rootWrite()}, policyCase{"unrestricted", unrestricted()})
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) { holdsKeys(t, fx, s.script(t, c.policy, keyScript(name))) })
		}
		for _, proxied := range []map[string]any{nil, {"managedNetwork": map[string]any{"dangerouslyAllowAllUnixSockets": true}}} {
			for _, c := range []policyCase{{"managed", workspaceOnly()}, {"managed, all files", disabled()}} {
				t.Run(c.name, func(t *testing.T) {
					holdsKeys(t, fx, s.script(t, c.policy, keyScript(name), enforce(networkProxy(nil), proxied)))
				})
			}
		}
	})
}

func keyScript(name string) string {
	return "$ADV getkey '" + name + "'; $ADV putkey '" + name + "' other"
}

func holdsKeys(t *testing.T, fx *fixture, p *process) {
	t.Helper()
	wants(t, fx, p.finish(t), []string{`^search: EPERM$`, `^request_key: EPERM$`, `^read: EPERM$`, `^add_key: EPERM$`}, "READ", ": ok$")
}
