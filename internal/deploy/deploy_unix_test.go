//go:build unix

package deploy

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/shellword"
	"github.com/tetherexec/tether/internal/tethertest/executable"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// A machine is an account in a directory. Its "ssh" is a shell on this machine that gets what sshd would give to a login shell.
type machine struct {
	Deployment
	t    *testing.T
	home string
	mu   sync.Mutex
	said []string
}

// programText is a program of some size; it prints what tether prints, and leaves a file behind when it runs.
func programText(ran string) string {
	return "#!/bin/sh\necho tether test\ntouch " + shellword.Quote(ran) + "\nexit\n" + strings.Repeat("# some text that makes the program longer\n", 20_000)[:820<<10]
}

// newMachine returns a machine with an empty home and an empty runtime directory. env are further variables of its shell.
func newMachine(t *testing.T, env ...string) *machine {
	t.Helper()
	m := &machine{t: t, home: t.TempDir()}
	own := filepath.Join(t.TempDir(), "tether")
	if err := executable.Write(own, []byte(programText(m.ran()))); err != nil {
		t.Fatal(err)
	}
	m.Deployment = Deployment{Host: "ssh://build", Version: "1.2", Own: own, Say: func(text string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.said = append(m.said, text)
	}}
	env = append([]string{"HOME=" + m.home, "XDG_RUNTIME_DIR=" + t.TempDir(), "XDG_CACHE_HOME="}, env...)
	m.SSH = append(append([]string{"env"}, env...), "sh", "-c")
	return m
}

// through puts a shell script in front of the login shell, which it executes by "$@".
func (m *machine) through(script string) {
	m.SSH = append([]string{"sh", "-c", script, "sh"}, m.SSH...)
}

func (m *machine) ran() string { return filepath.Join(m.home, "ran") }

func (m *machine) run() (string, bool, error) { return m.Run(m.t.Context()) }

// works copies the program to the place that is expected.
func (m *machine) works(want string) {
	m.t.Helper()
	path, copied, err := m.run()
	if err != nil || path != want || !copied {
		m.t.Fatalf("%s, %t, %v, want %s; said %q", path, copied, err, want, m.said)
	}
	m.hasProgram(want)
}

// hasProgram checks the program, and that nothing else is beside it.
func (m *machine) hasProgram(path string) {
	m.t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != programText(m.ran()) {
		m.t.Errorf("%d bytes, %v", len(got), err)
	}
	for name, mode := range map[string]fs.FileMode{path: 0o700, filepath.Dir(path): 0o700 | fs.ModeDir, filepath.Dir(filepath.Dir(path)): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(name); err != nil || info.Mode() != mode {
			m.t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, mode)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		m.t.Errorf("beside the program: %v", left)
	}
}

// fails expects an error with a text, and that no program was executed or left behind.
func (m *machine) fails(text string) {
	m.t.Helper()
	if _, copied, err := m.run(); err == nil || copied || !strings.Contains(err.Error(), text) {
		m.t.Errorf("%v, want %q; said %q", err, text, m.said)
	}
	if _, err := os.Stat(m.ran()); err == nil {
		m.t.Error("the program was executed")
	}
	if _, err := os.Stat(m.own()); err == nil {
		m.t.Error("the program is there")
	}
}

// own is where the program belongs.
func (m *machine) own() string { return filepath.Join(m.home, ".cache/tether/1.2/tether") }

func (m *machine) runtimeDir() string {
	for _, word := range m.SSH {
		if dir, ok := strings.CutPrefix(word, "XDG_RUNTIME_DIR="); ok {
			return dir
		}
	}
	return ""
}

// until is a shell script that passes on the conversation until the machine has told how much of the program it has, and then what a command passes on.
func (m *machine) until(command string) string {
	p, err := open(m.Own)
	if err != nil {
		m.t.Fatal(err)
	}
	defer p.Close()
	answers := fmt.Sprintf("%d %s %s\ngo\n", p.size, p.sum, p.sum[:16])
	return fmt.Sprintf(`{ dd bs=1 count=%d 2>/dev/null; %s; } | "$@"; `, len(m.script())+len(answers), command)
}

// inNamespace puts the machine into a mount namespace of its own, where a script mounts what it needs.
func (m *machine) inNamespace(mounts string) {
	m.t.Helper()
	if text, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		need.CannotRun(m.t, "mount namespaces: %v: %s", err, text)
	}
	m.through(`exec unshare -rm sh -c '` + mounts + ` && exec "$@"' sh "$@"`)
}

// Each login shell gets the program, and finds it the next time.
func TestCopy(t *testing.T) {
	t.Parallel()
	for name, shell := range map[string][]string{
		"sh": {"sh"}, "dash": {"dash"}, "bash": {"bash"}, "busybox": {"busybox", "sh"}, "csh": {"bsd-csh"}, "tcsh": {"tcsh"}, "fish": {"fish"}, "zsh": {"zsh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skipf("%s is not installed", shell[0])
			}
			m := newMachine(t)
			m.SSH = append(append(m.SSH[:len(m.SSH)-2:len(m.SSH)-2], shell...), "-c")
			m.works(m.own())
			if want := "copying tether 1.2 for " + runtime.GOOS + "/" + runtime.GOARCH + " (820KiB) to ssh://build, as " + m.own(); len(m.said) != 1 || m.said[0] != want {
				t.Errorf("said %q, want %q", m.said, want)
			}
			if path, copied, err := m.run(); path != m.own() || copied || err != nil {
				t.Errorf("the second time: %s, %t, %v", path, copied, err)
			}
			m.hasProgram(m.own())
		})
	}
}

// The busybox of a small system has all programs that the script needs.
func TestCopyWithBusyboxAlone(t *testing.T) {
	t.Parallel()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		need.CannotRun(t, "busybox is not installed")
	}
	bin := t.TempDir()
	if text, err := exec.Command(busybox, "--install", "-s", bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	m := newMachine(t, "PATH="+bin)
	m.works(m.own())
}

// A transfer that is cut goes on where it has ended.
func TestCopyIsResumed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	cuts := filepath.Join(t.TempDir(), "cuts")
	m.through(`echo >>` + cuts + `; if [ "$(wc -l <` + cuts + `)" -lt 4 ]; then ` + m.until(`head -c 250000`) + `exit 255; fi; exec "$@"`)
	m.works(m.own())
	if text, _ := os.ReadFile(cuts); len(text) != 4 || m.mark.had != 750_000 || len(m.said) != 1+3 {
		t.Errorf("%d connections, %d bytes before the last, said %q", len(text), m.mark.had, m.said)
	}
}

// If no connection brings the copy further, the error says how the last one has ended.
func TestCopyGivesUp(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.through(m.until("true") + `echo cable broken >&2; exit 255`)
	m.fails("copy tether to ssh://build: the connection was lost: `sh` has ended (exit status 255): cable broken")
	if len(m.said) != 1+4 {
		t.Errorf("said %q", m.said)
	}
	m = newMachine(t)
	m.SSH = []string{"sh", "-c", "echo Permission denied >&2; exit 255"}
	m.fails("the connection was lost: `sh` has ended (exit status 255): Permission denied")
	if len(m.said) != 0 {
		t.Errorf("said %q", m.said)
	}
}

// Several clients at the same time do not disturb each other.
func TestCopyAtTheSameTime(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			d := m.Deployment
			if path, _, err := d.Run(t.Context()); path != m.own() || err != nil {
				t.Errorf("%s, %v", path, err)
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(m.own())
	if err != nil || string(got) != programText(m.ran()) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Directories that cannot be used are left out, with the reason.
func TestCopyToAnotherDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ mounts, reason string }{
		"noexec":    {`mount -t tmpfs -o noexec none "$D"`, "does not execute programs in "},
		"read-only": {`mount -t tmpfs -o ro none "$D"`, "Read-only file system"},
		"full":      {`mount -t tmpfs -o nr_inodes=1 none "$D"`, "No space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			runtime := m.runtimeDir()
			m.inNamespace(strings.ReplaceAll(c.mounts, "$D", m.home))
			m.works(filepath.Join(runtime, "tether-bin/1.2/tether"))
			if len(m.said) != 3 || !strings.HasPrefix(m.said[1], "ssh://build: "+filepath.Dir(m.own())+" cannot be used: ") || !strings.Contains(m.said[1], c.reason) {
				t.Errorf("said %q", m.said)
			}
			if left, _ := os.ReadDir(m.home); len(left) > 1 { // "ran" is hidden by the mount
				t.Errorf("left %v", left)
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.inNamespace(strings.NewReplacer("$D", m.home, "$R", m.runtimeDir()).Replace(`mount -t tmpfs -o ro none "$D" && mount -t tmpfs -o ro none "$R" && mount -t tmpfs -o noexec none /var/tmp`))
		m.fails("no directory of the machine can be used")
		if len(m.said) != 6 || !strings.Contains(m.said[5], "/var/tmp/tether-bin-0/1.2 cannot be used: the machine does not execute programs") {
			t.Errorf("said %q", m.said)
		}
	})
	t.Run("of another user", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		open := filepath.Join(m.runtimeDir(), "tether-bin")
		if err := os.Mkdir(open, 0o777); err != nil {
			t.Fatal(err)
		}
		os.Chmod(open, 0o777)
		m.inNamespace(`mount -t tmpfs -o ro none "` + m.home + `" && mount -t tmpfs -o ro none /var/tmp`)
		m.fails("no directory of the machine can be used")
		if !strings.Contains(fmt.Sprint(m.said), open+" is accessible to other users") {
			t.Errorf("said %q", m.said)
		}
		if left, _ := os.ReadDir(open); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

// A disk that becomes full is an error, and nothing stays there.
func TestCopyToFullDisk(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.inNamespace(`mount -t tmpfs -o size=200k none "` + m.home + `"`)
	m.fails("No space left on device")
	m = newMachine(t)
	m.through(`trap '' XFSZ; ulimit -f 200; exec "$@"`)
	m.fails("File too large")
	if left, _ := os.ReadDir(filepath.Dir(m.own())); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// A copy with a wrong checksum is removed and not executed; the next attempt begins again.
func TestWrongChecksum(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p, err := open(m.Own)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	os.MkdirAll(filepath.Dir(m.own()), 0o700)
	wrong := "#!/bin/sh\ntouch " + shellword.Quote(m.ran()) + "\necho tether\nexit\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(m.own()), ".part."+p.sum[:16]+".elsewhere.1"), []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	m.fails("the checksum of the copy is wrong")
	os.Remove(filepath.Join(filepath.Dir(m.own()), ".part."+p.sum[:16]+".elsewhere.1"))
	m.works(m.own())
}

// A program that cannot run there is removed.
func TestProgramThatDoesNotRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.File = filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(m.File, []byte("\x7fELF, but of another planet"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.fails("the program does not run there: ")
	if left, _ := os.ReadDir(filepath.Dir(m.own())); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	m.File = t.TempDir()
	m.fails("is not a file")
}

// Text of start-up files is skipped, up to a limit.
func TestTextOfStartUpFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.through(`echo 'Welcome to build'; printf 'tether-deploy is no line of tether\n\377\nno line end'; exec "$@"`)
	m.works(m.own())
	m = newMachine(t)
	m.through(`yes Welcome | head -n 10000; exec "$@"`)
	m.fails("the machine prints more than 65536 bytes that do not come from tether")
}

func TestNoChecksumProgram(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, name := range []string{"sh", "dd", "uname", "id"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		os.Symlink(path, filepath.Join(bin, name))
	}
	m := newMachine(t, "PATH="+bin)
	m.fails("the machine has no program for SHA-256")
	if left, _ := os.ReadDir(m.home); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// The program of another platform is beside this one, in a file or in an archive of the release.
func TestOtherPlatforms(t *testing.T) {
	t.Parallel()
	other := func(t *testing.T, uname string) *machine {
		bin := t.TempDir()
		if err := executable.Write(filepath.Join(bin, "uname"), []byte("#!/bin/sh\ncase $1 in -s) echo "+strings.Replace(uname, " ", ";; -m) echo ", 1)+";; *) echo host;; esac\n")); err != nil {
			t.Fatal(err)
		}
		m := newMachine(t, "PATH="+bin+":/usr/bin:/bin")
		os.Rename(m.Own, filepath.Join(filepath.Dir(m.Own), "moved"))
		return m
	}
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		m := other(t, "Plan9 mips")
		m.fails(`its platform is "Plan9 mips", and no program of tether is known for that; build it and name it with --executor-binary FILE`)
		m.File = filepath.Join(filepath.Dir(m.Own), "moved")
		m.works(m.own())
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		m := other(t, "Darwin arm64")
		m.fails("the machine needs tether for darwin/arm64, which is not here: put tether-darwin-arm64, or tether_1.2_darwin_arm64.tar.gz of the release, into " + filepath.Dir(m.Own))
		if left, _ := os.ReadDir(m.home); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		m := other(t, "Linux riscv64")
		os.Rename(filepath.Join(filepath.Dir(m.Own), "moved"), m.Own+"-linux-riscv64")
		m.works(m.own())
	})
	t.Run("archive", func(t *testing.T) {
		t.Parallel()
		m := other(t, "Darwin x86_64")
		writeArchive(t, filepath.Join(filepath.Dir(m.Own), "tether_1.2_darwin_amd64.tar.gz"), map[string]string{"x/completions/bash/tether": "text", "x/bin/tether": programText(m.ran())})
		m.works(m.own())
		writeArchive(t, filepath.Join(filepath.Dir(m.Own), "tether_1.2_darwin_amd64.tar.gz"), map[string]string{"README.md": "text"})
		os.Remove(m.ran())
		os.Remove(m.own())
		m.fails("has no file bin/tether")
	})
}

func writeArchive(t *testing.T, name string, files map[string]string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped := gzip.NewWriter(file)
	defer zipped.Close()
	archive := tar.NewWriter(zipped)
	defer archive.Close()
	for name, text := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(archive, text)
	}
}

// Programs of other versions are removed when no process executes them.
func TestOldVersionsAreRemoved(t *testing.T) {
	t.Parallel()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	base := filepath.Join(m.home, ".cache/tether")
	for _, version := range []string{"1.0", "1.1", "1.20"} {
		os.MkdirAll(filepath.Join(base, version), 0o700)
		if err := executable.Copy(cat, filepath.Join(base, version, "tether")); err != nil {
			t.Fatal(err)
		}
	}
	os.MkdirAll(filepath.Join(base, "mine"), 0o700)
	os.WriteFile(filepath.Join(base, "mine", "notes"), nil, 0o600)
	cmd := exec.Command(filepath.Join(base, "1.20", "tether")) // 1.2 is not meant
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	versions := func() (names string) {
		entries, _ := os.ReadDir(base)
		for _, entry := range entries {
			names += entry.Name() + " "
		}
		return names
	}
	m.works(m.own())
	if got := versions(); got != "1.2 1.20 mine " {
		t.Errorf("with a process of 1.20: %s; said %q", got, m.said)
	}
	if said := fmt.Sprint(m.said); !strings.Contains(said, "ssh://build: removing "+base+"/1.1/tether, which no process executes") {
		t.Errorf("said %q", m.said)
	}
	stdin.Close()
	cmd.Wait()
	if _, _, err := m.run(); err != nil || versions() != "1.2 mine " {
		t.Errorf("%s, %v", versions(), err)
	}
}
