package upload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

func init() {
	helpers["crash"] = receiveForever
	helpers["full disk"] = fullDisk
}

// helper starts this test binary in another role.
func helper(part string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+part)
	cmd.Stderr = os.Stderr
	return cmd
}

// receiveForever is a server that receives uploads until it is killed. Its arguments are
// the journal and the target.
func receiveForever() {
	journal, err := OpenJournal(os.Args[1])
	if err != nil {
		panic(err)
	}
	table := New(Config{Journal: journal})
	for _, id := range []string{"a", "b"} {
		if _, err := table.Open(context.Background(), Direct, wire.UploadOpenParams{UploadID: id, Path: uri(os.Args[2]), Size: 10}); err != nil {
			panic(err)
		}
	}
	if _, err := table.Write(context.Background(), wire.UploadWriteParams{UploadID: "a", Chunk: []byte("half")}); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("ready\n")
	io.Copy(io.Discard, os.Stdin)
}

// The next server removes the files of a killed server, and nothing else.
func TestCrashAndSweep(t *testing.T) {
	s := newSite(t)
	s.put("f", "old", 0o644)
	cmd := helper("crash", s.journal, s.path("f"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "ready\n" {
		t.Errorf("the helper says %q, %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	left := s.left()
	if len(left) != 2 {
		t.Fatalf("left: %v", left)
	}
	s.holds("f", []byte("old"))
	mode := left[0] + modeSuffix // as if killed during a commit
	bystander := s.path(tempPrefix + "other")
	for _, path := range []string{mode, bystander} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(s.journal); err != nil {
		t.Error(err)
	}
	if left := s.left(); len(left) != 1 || left[0] != bystander {
		t.Errorf("left: %v", left)
	}
	os.Remove(bystander)
	s.clean()
}

// Entries whose directories are gone or have become links are dropped.
func TestSweepDropsMissingDirectories(t *testing.T) {
	s := newSite(t)
	j := s.table.journal
	name := tempName()
	if err := errors.Join(os.Mkdir(s.path("real"), 0o755), os.Symlink("real", s.path("link"))); err != nil {
		t.Fatal(err)
	}
	s.put("real/"+name, "", 0o600)
	for dir, entry := range map[string]string{s.path("missing"): tempName(), s.path("link"): name} {
		if err := j.add(dir, entry); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(s.journal); err != nil {
		t.Error(err)
	}
	if left := s.left(); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	os.Remove(s.path("real/" + name))
	if err := Sweep(filepath.Join(s.journal, "none")); err != nil {
		t.Errorf("no journal: %v", err)
	}
	// A file that cannot be removed stays in the journal.
	if err := errors.Join(j.add(s.path("real"), name), os.Mkdir(s.path("real/"+name), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(s.journal); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("sweep: %v", err)
	}
	os.Remove(s.path("real/" + name))
	if err := Sweep(s.journal); err != nil {
		t.Error(err)
	}
}

// cannotMount is printed by the helper if it cannot mount a disk.
const cannotMount = 3

// fullDisk mounts a small disk at its argument and runs one test on it.
func fullDisk() {
	if err := syscall.Mount("tmpfs", os.Getenv("TETHER_UPLOAD_DISK"), "tmpfs", 0, "size=1m"); err != nil {
		os.Stderr.WriteString("mount: " + err.Error() + "\n")
		os.Exit(cannotMount)
	}
	tests := []testing.InternalTest{{Name: "SmallDisk", F: testSmallDisk}}
	if !testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, tests) {
		os.Exit(1)
	}
}

// A full disk ends no upload: the target is unchanged, and the upload continues
// when there is room.
func TestFullDisk(t *testing.T) {
	cmd := helper("full disk")
	cmd.Env = append(cmd.Env, "TETHER_UPLOAD_DISK="+t.TempDir())
	one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: one(os.Getuid()), GidMappings: one(os.Getgid()),
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	exit, ran := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ran || exit.ExitCode() == cannotMount) {
		need.CannotRun(t, "no namespace with a small disk: %v\n%s", err, &out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

func testSmallDisk(t *testing.T) {
	s := siteIn(t, os.Getenv("TETHER_UPLOAD_DISK"))
	const half = 300 << 10
	data := noise(2 * half)
	s.put("f", "old", 0o644)
	s.open("a", "f", len(data))
	s.write("a", 0, data[:half])
	if err := os.WriteFile(s.path("ballast"), noise(2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("ballast: %v", err)
	}
	_, err := s.tryWrite("a", half, data[half:])
	s.fails(err, syscall.ENOSPC, wire.CodeInternal)
	if got := s.status("a"); got.Received != half || got.Offset != half {
		t.Errorf("status: %+v", got)
	}
	s.fails(s.tryCommit("a", data), ErrIncomplete, wire.CodeInvalidRequest)
	s.holds("f", []byte("old"))
	if err := os.Remove(s.path("ballast")); err != nil {
		t.Fatal(err)
	}
	s.write("a", half, data[half:])
	s.commit("a", data)
	s.holds("f", data)
}
