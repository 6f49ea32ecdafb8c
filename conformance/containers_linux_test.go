package conformance

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Here servers run under the restrictions that container engines have by default, as far as they can be made without an engine.

// A callFilter refuses system calls with an error: clone only if it makes namespaces.
type callFilter map[uint32]syscall.Errno

// The calls that make and change mounts. An engine that is older than the second list does not know these calls, and
// refuses them although it allows the first.
var (
	mountCalls    = []uint32{unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT}
	newMountCalls = []uint32{
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	}
)

// refusing returns a filter that refuses calls.
func refusing(with syscall.Errno, calls ...[]uint32) callFilter {
	f := callFilter{}
	for _, nr := range slices.Concat(calls...) {
		f[nr] = with
	}
	return f
}

// dockerFilter refuses what Docker's own profile refuses of the calls that sandboxes need.
func dockerFilter() callFilter {
	return refusing(unix.EPERM, mountCalls, newMountCalls, []uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CLONE})
}

// encode returns the filter as bubblewrap takes it. clone3 is always missing: a filter cannot see its flags.
func (f callFilter) encode(t *testing.T) []byte {
	t.Helper()
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	forbid := func(errno syscall.Errno) bpf.RetConstant {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	steps := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4}, // the number
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		forbid(unix.ENOSYS),
	}
	for _, nr := range slices.Sorted(maps.Keys(f)) {
		if nr != unix.SYS_CLONE {
			steps = append(steps, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, forbid(f[nr]))
		}
	}
	if errno := f[unix.SYS_CLONE]; errno != 0 {
		steps = append(steps,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 3},
			bpf.LoadAbsolute{Off: 16, Size: 4}, // its flags
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaces, SkipTrue: 1},
			forbid(errno))
	}
	program, err := bpf.Assemble(append(steps, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}))
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, i := range program {
		b = binary.NativeEndian.AppendUint16(b, i.Op)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b
}

// bare is a bubblewrap that changes nothing but what the options say. It ends with its parent, and passes no signals on.
func bare(options ...string) []string {
	return append(append([]string{"bwrap", "--die-with-parent", "--dev-bind", "/", "/"}, options...), "--")
}

// withFilter returns the beginning of a command line whose rest runs under a filter.
func withFilter(t *testing.T, a *account, f callFilter, options ...string) []string {
	t.Helper()
	file := filepath.Join(a.dir, "filter-"+strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.WriteFile(file, f.encode(t), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	return append([]string{"/bin/sh", "-c", `exec 9< "$0"; exec "$@"`, file}, bare(append(options, "--seccomp", "9")...)...)
}

// masked hides and freezes parts of /proc, as container engines do. A new procfs can then not be mounted in a user namespace.
var masked = []string{"--tmpfs", "/proc/fs", "--ro-bind", "/dev/null", "/proc/keys", "--ro-bind", "/proc/sys", "/proc/sys", "--ro-bind", "/proc/bus", "/proc/bus"}

// capabilitiesOfDocker are those that root has in a container of Docker.
const capabilitiesOfDocker = ",+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write"

// restricted returns the beginning of a command line whose rest has no capabilities but these, as in a pod.
func restricted(a *account, capabilities string) []string {
	outer := bare(append(slices.Clone(masked), "--cap-add", "ALL")...)
	if !a.root() {
		outer = bare(append(slices.Clone(masked), "--unshare-user", "--cap-add", "ALL")...)
	}
	return append(outer, "setpriv", "--ambient-caps=-all", "--inh-caps=-all", "--bounding-set=-all"+capabilities, "--no-new-privs", "--")
}

// confines checks that the server confines commands.
func confines(t *testing.T, s *instance) {
	t.Helper()
	fx := newFixture(t, s.account)
	fx.handOver()
	script := `cat a.txt && echo x > n; mkdir .git; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; echo x > $OUT/n`
	p := s.mustStart(t, fx, row{policy: workspaceOnly(), script: script})
	none := `^Cap(Inh|Prm|Eff|Bnd|Amb):\s*0*[1-9a-f]`
	row{exit: 2, denied: yes, out: []string{"^text of a$", "mkdir: .*", `^NoNewPrivs:\s+1$`, `^Seccomp:\s+2$`, "out/n: " + textROFS}, not: []string{none}}.
		checkOutcome(t, fx, p.finish(t))
	row{host: []string{"+$WS/n", "-$OUT/n", "-$WS/.git"}}.checkHost(t, fx, s)
}

// withBackend returns the account with servers that use another backend.
func (a *account) withBackend(backend string) *account {
	return &account{name: a.name, backend: backend, uid: a.uid, gid: a.gid, dir: a.dir}
}

// Docker's profile lets neither root nor another user make namespaces. Commands that need some are refused, by every backend, and
// tether doctor says so.
func TestDockersFilter(t *testing.T) {
	notForReference(t, "the command is started and exits 1")
	eachBackend(t, func(t *testing.T, a *account) {
		options := slices.Clone(masked)
		if !a.root() {
			options = append(options, "--unshare-user")
		}
		prefix := withFilter(t, a, dockerFilter(), options...)
		refuses(t, a.own(t, append(slices.Clone(prefix), a.argv()...), nil), "make a process: operation not permitted", "(?i)allow `unshare`, .*Docker")
		doctorFinds(t, a, prefix, "a sandbox can be built", "allow `unshare`")
	})
}

// doctorFinds checks that tether doctor reports a failure, and a fix for it.
func doctorFinds(t *testing.T, a *account, prefix []string, name, fix string) {
	t.Helper()
	argv := append(slices.Clone(prefix), suite.tether, "doctor", "--json", "--sandbox-backend", a.backend)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = a.dir, a.credential()
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + a.home(), "XDG_STATE_HOME=" + filepath.Join(a.dir, "state")}
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("tether doctor: %v: %s", err, out)
	}
	var report struct {
		Checks []struct{ Name, Status, Detail, Fix string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("tether doctor: %v: %s", err, out)
	}
	for _, c := range report.Checks {
		if c.Name == name && (c.Status != "failed" || !strings.Contains(c.Fix, fix)) {
			t.Errorf("tether doctor says %+v, want a fix with %q", c, fix)
		}
	}
	if !strings.Contains(string(out), `"`+name+`"`) {
		t.Errorf("tether doctor does not report %s: %s", name, out)
	}
}

// A filter that allows namespaces and mounts, but not the newer calls for mounts: bubblewrap works, and is used if the backend
// is automatic.
func TestFilterWithoutNewMountCalls(t *testing.T) {
	notForReference(t, "it has no other backend")
	eachAccount(t, func(t *testing.T, a *account) {
		prefix := withFilter(t, a, refusing(unix.ENOSYS, newMountCalls), masked...)
		if !a.root() {
			prefix = withFilter(t, a, refusing(unix.ENOSYS, newMountCalls))
		}
		native := a.withBackend("native")
		refuses(t, native.own(t, append(slices.Clone(prefix), native.argv()...), nil), "open /dev/.*: function not implemented", "--sandbox-backend auto")
		automatic := a.withBackend("auto")
		confines(t, automatic.own(t, append(prefix, automatic.argv()...), nil))
	})
}

// Containers of Kubernetes have no filter by default, but a masked /proc. Commands are confined, whatever rights the container has,
// unless root may not map its own id.
func TestRightsOfContainers(t *testing.T) {
	eachBackend(t, func(t *testing.T, a *account) {
		if a.root() {
			confines(t, a.own(t, append(restricted(a, capabilitiesOfDocker), a.argv()...), nil))
			refuses(t, a.own(t, append(restricted(a, ""), a.argv()...), nil), "map the user: operation not permitted", "SETFCAP.*another user")
			return
		}
		confines(t, a.own(t, append(restricted(a, ""), a.argv()...), nil))
	})
}
