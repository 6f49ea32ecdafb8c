//go:build interop

package interop_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// TestSandboxDifferential plays scenarios of docs/scenarios.md with both servers.
func TestSandboxDifferential(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	for _, group := range [][]sandboxRow{
		readRows, writeRows, protectedRows, networkRows, managedRows, lifeRows, terminalRows, environmentRows,
	} {
		for _, row := range group {
			t.Run(scenario.Name(row.id), func(t *testing.T) { row.exchange().run(t) })
		}
	}
}

var readRows = []sandboxRow{
	{id: "R01", policy: readOnly, script: `cat $OUT/secret.txt`},
	{id: "R02", policy: minimalRead, script: `cat $OUT/secret.txt`},
	{id: "R03", policy: minimalRead, script: `cat $WS/a.txt`},
	{id: "R04", policy: minimalRead, script: `ls / | grep -vx -e tmp -e $FIRST`}, // of /tmp see D05
	{id: "R06", policy: readOnly.and(at("$OUT/secret.txt", "deny")), script: `stat -c '%a %s' $OUT/secret.txt; cat $OUT/secret.txt`},
	{id: "R07", policy: readOnly.and(at("$OUT", "deny")), script: `stat -c %a $OUT; ls $OUT; cat $OUT/secret.txt`},
	{id: "R08", policy: readOnly.and(at("$OUT", "deny"), at("$OUT/open", "write")), with: func(f *fixture) { f.dir("out/open") },
		script: `echo x > $OUT/open/f; cat $OUT/open/f; stat -c %a $OUT; cat $OUT/secret.txt; ls $OUT`},
	{id: "R09", policy: readOnly.and(at("$OUT", "deny"), at("$OUT/open", "read")), with: func(f *fixture) { f.file("out/open/f", "open") },
		script:  `cat $OUT/open/f`,
		differs: ends("a readable directory below a denied one is opened again", 0, false, stdout("open"))},
	{id: "R10", policy: workspaceOnly.and(glob("$WS/**/*.env", "deny")), with: envFiles,
		script: `cat x.env; cat d/y.env; cat a.txt; echo late > late.env; cat late.env; rm x.env; mv d/y.env z; exit 1`,
		differs: ends("directories above a mask are pinned, so that moving out of them is copying", 1, true, map[string]string{
			"stderr": "cat: x.env: Permission denied\ncat: d/y.env: Permission denied\nrm: cannot remove 'x.env': Device or resource busy\n" +
				"mv: cannot open 'd/y.env' for reading: Permission denied\n", "stdout": "insidelate\n"})},
	{id: "R12", policy: workspaceOnly.and(glob("codex-project-roots://**/*.env", "deny")), with: envFiles, script: `cat x.env`},
	{id: "R13", intent: intentFor(fmt.Sprintf(`{"type":"managed","file_system":{"type":"restricted","entries":[%s,%s],"glob_scan_max_depth":1},"network":"restricted"}`,
		rootRead, glob("$WS/**/*.env", "deny")), ""), with: envFiles, script: `cat x.env; cat d/y.env`},
	{id: "R14", policy: readOnly.and(glob("/**/*.env", "deny")), script: `true`,
		differs: refused(refusedAtOnce, -32602, "failed to prepare process sandbox: unreadable glob `/**/*.env` cannot be safely expanded; use a pattern with a non-root directory prefix")},
	{id: "R16", policy: readOnly.and(glob("$WS/**/*.env", "write")), with: envFiles, script: `echo more >> x.env`},
	{id: "R17", policy: workspaceOnly.and(glob("$WS/priv*", "deny")), with: func(f *fixture) { f.file("ws/private/k", "key") },
		script:  `cat private/k`,
		differs: ends("a glob hides directories too", 1, true, stderr("cat: private/k: Permission denied\n"))},
	{id: "R18", policy: workspaceOnly.and(at("$OUT/secret.txt", "deny")), with: func(f *fixture) { f.link("ws/l", "$OUT/secret.txt") },
		script: `cat l`},
	{id: "R20", policy: readOnly.and(at("$FX/alias", "deny")), with: func(f *fixture) { f.link("alias", "$OUT") }, script: `cat $OUT/secret.txt`,
		differs: ends("a denied symlink denies what it leads to", 1, true, stderr("cat: $BENCH/rows/out/secret.txt: Permission denied\n"))},
	{id: "R21", policy: workspaceOnly.and(at("$WS/lnk/secret.txt", "deny")), with: func(f *fixture) { f.link("ws/lnk", "$OUT") }, script: `true`,
		differs: refused(refusedAtOnce, -32602, "failed to prepare process sandbox: cannot enforce sandbox deny-read path $BENCH/rows/ws/lnk/secret.txt because it crosses writable symlink $BENCH/rows/ws/lnk")},
	{id: "R22", policy: workspaceOnly.and(at("$WS/nope/deep", "deny")), script: `mkdir -p nope/deep; echo x > nope`},
	{id: "R26", policy: readOnly.and(at("$OUT", "read"), at("$OUT", "deny")), script: `cat $OUT/secret.txt`},
	{id: "R27", policy: readOnly.and(at("$OUT", "read"), at("$OUT", "write")), script: `echo x > $OUT/n`},
}

func envFiles(f *fixture) {
	f.file("ws/x.env", "one")
	f.file("ws/d/y.env", "two")
}

var writeRows = []sandboxRow{
	{id: "W01", policy: readOnly, script: `touch $WS/n`},
	{id: "W02", policy: workspaceWrite, script: `echo x > n; echo y >> a.txt; mkdir made; rm -r sub`},
	{id: "W03", policy: workspaceWrite, script: `echo x > $OUT/n`},
	{id: "W04", policy: workspaceWrite, script: `echo x > ` + hostTemp("/tmp"), others: []string{hostTemp("/tmp")}},
	{id: "W05", policy: workspaceOnly, script: `echo x > ` + hostTemp("/tmp"), others: []string{hostTemp("/tmp")}},
	{id: "W06", policy: workspaceWrite, script: `echo x > ` + hostTemp("/var/tmp"), others: []string{hostTemp("/var/tmp")}},
	{id: "W07", policy: workspaceWrite, script: `echo x > ` + hostTemp("/dev/shm"), others: []string{hostTemp("/dev/shm")}},
	{id: "W08", policy: workspaceWrite, with: func(f *fixture) { f.link("ws/l", "$OUT/n") }, script: `echo x > l`},
	{id: "W09", policy: workspaceWrite, script: `ln -s $OUT esc; echo x > esc/n`},
	{id: "W10", policy: workspaceWrite, argv: perl(`rename "a.txt", "$OUT/a.txt" or fail()`)},
	{id: "W12", policy: workspaceWrite, argv: perl(`link "$OUT/secret.txt", "l" or fail()`)},
	{id: "W13", policy: workspaceWrite, with: func(f *fixture) { f.hardLink("ws/h", "out/secret.txt") }, script: `echo more >> h`},
	{id: "W16", policy: workspaceWrite, script: `rm $OUT/secret.txt`},
	{id: "W18", asRoot: true, policy: workspaceWrite, script: `true >> /etc/passwd`},
	{id: "W19", policy: rootWrite, script: `echo x > $OUT/n`},
	{id: "W20", policy: rootWrite.and(at("$OUT", "deny")), script: `echo x > $FX/n; cat $OUT/secret.txt; echo x > $OUT/n`},
	{id: "W21", policy: rootWrite.and(at("$OUT", "read")), script: `echo x > $FX/n; cat $OUT/secret.txt; echo x > $OUT/n`},
	{id: "W22", policy: entries{rootRead, at("$WS", "write"), at("$WS/a", "deny"), at("$WS/a/b", "write")},
		with: func(f *fixture) { f.file("ws/a/k", "key"); f.dir("ws/a/b") }, script: `echo x > top; cat a/k; echo x > a/b/f; echo x > a/x`},
	{id: "W23", policy: entries{rootRead, at("$WS", "write"), at("$WS/sub", "read")}, script: `echo x > top; echo x > sub/f`},
	{id: "W24", policy: readOnly.and(at("$WS/a.txt", "write")), script: `echo x > a.txt; echo x > b.txt`,
		differs: append(ends("a file may be named for writing", 2, true, stderr("/bin/sh: 1: cannot create b.txt: Read-only file system\n")),
			difference{"host", "a file may be named for writing", plainHost("x\n")})},
	{id: "W25", policy: readOnly.and(at("$OUT/missing", "write")), script: `mkdir $OUT/missing`},
	{id: "W27", policy: workspaceOnly, over: `"workspaceRoots":[]`, script: `echo x > n`},
	{id: "W28", policy: workspaceOnly, over: `"workspaceRoots":["file://$FX/ws2"]`, with: func(f *fixture) { f.dir("ws2") },
		script: `echo x > $FX/ws2/n; echo x > n`},
	{id: "W31", policy: workspaceOnly, over: `"cwd":"file://$FX/alias","workspaceRoots":["file://$FX/alias"]`, start: `"cwd":"file://$FX/alias"`,
		with: func(f *fixture) { f.link("alias", "$WS") }, script: `pwd; echo 1 > one; echo 2 > $FX/alias/two; echo 3 > $WS/three`},
	{id: "W33", policy: workspaceWrite, start: `"cwd":"file://$WS/missing"`, script: `true`,
		differs: refused("the text says what is missing", -32603, "No such file or directory (os error 2): working directory \"$BENCH/rows/ws/missing\"")},
	{id: "W34", policy: workspaceOnly, over: `"cwd":"file://$FX/missing","workspaceRoots":["file://$FX/missing"]`, script: `touch n`},
	{id: "W36", policy: workspaceOnly.and(at("$WS/lnk/x", "read")), with: func(f *fixture) { f.link("ws/lnk", "$OUT") }, script: `true`,
		differs: refused(refusedAtOnce, -32602, "failed to prepare process sandbox: cannot enforce sandbox read-only path $BENCH/rows/ws/lnk/x because it crosses writable symlink $BENCH/rows/ws/lnk")},
}

// hostTemp returns a name of this run in a shared directory.
func hostTemp(dir string) string { return fmt.Sprintf("%s/tether-interop-%d", dir, os.Getpid()) }

// refusedAtOnce is the reason why tether starts no process for an intent that it cannot enforce.
const refusedAtOnce = "an intent that cannot be enforced is refused at the start, not by a process that fails"

func stdout(text string) map[string]string { return map[string]string{"stdout": text} }
func stderr(text string) map[string]string { return map[string]string{"stderr": text} }

// asRoot keeps differences that only root sees. An ordinary user gets EACCES first.
func asRoot(differs []difference) []difference {
	if os.Geteuid() != 0 {
		return nil
	}
	return differs
}

// plainHost is the state of a fixture in which only $WS/a.txt may have changed.
func plainHost(content string) string {
	return fmt.Sprintf("drwxr-xr-x out\n-rw------- out/secret.txt \"secret\"\ndrwxr-xr-x ws\n-rw------- ws/a.txt %q\ndrwxr-xr-x ws/sub\n", content)
}

// perl returns a command that runs a statement. fail prints the number of the error, because its text could look like a denial, and
// exits with 1.
func perl(statement string) []string {
	return []string{"/usr/bin/perl", "-e", `sub fail { print "errno ", $!+0, "\n"; exit 1 } ` + statement + `; print "done\n"`}
}

var protectedRows = []sandboxRow{
	{id: "G01", policy: workspaceWrite, with: gitDirectory, script: `cat .git/config; echo x > .git/hooks/h; echo x > .git/config`},
	{id: "G02", policy: workspaceWrite, with: gitDirectory, argv: perl(`rename ".git", "moved" or fail()`)},
	{id: "G03", policy: workspaceWrite, with: gitDirectory, script: `rm -rf .git; ls -A .git`},
	{id: "G04", policy: workspaceOnly, script: `stat -c '%a %F' .git; mkdir .git; echo x > .git/config`},
	{id: "G05", policy: workspaceOnly, script: `git init . ; echo $?`},
	{id: "G06", policy: workspaceOnly, script: `echo x > .codex/config.toml`},
	{id: "G07", policy: workspaceOnly, script: `echo x > .agents/skill.md`},
	{id: "G08", policy: workspaceOnly, script: `echo x > .aws/credentials`},
	{id: "G09", policy: workspaceOnly, script: `mkdir sub/.git sub/.codex; echo x > sub/.git/config`},
	{id: "G10", policy: workspaceOnly, with: func(f *fixture) { f.file("ws/.git", "gitdir: real.git\n"); f.file("ws/real.git/config", "c") },
		script: `echo x > real.git/config; echo x > .git`},
	{id: "G11", policy: workspaceOnly.and(below(".git", "write")), with: gitDirectory, script: `echo x > .git/config; mkdir .codex`},
	{id: "G12", policy: workspaceOnly, with: func(f *fixture) { f.dir("ws/.git") }, script: `echo x > .git/config; true`},
	{id: "G13", policy: workspaceOnly, with: func(f *fixture) { f.dir("ws/real"); f.link("ws/.git", "$WS/real") }, script: `true`,
		differs: refused(refusedAtOnce, -32602, "failed to prepare process sandbox: cannot enforce sandbox read-only path $BENCH/rows/ws/.git because it crosses writable symlink $BENCH/rows/ws/.git")},
	{id: "G14", policy: workspaceOnly, with: func(f *fixture) { f.link("ws/.codex", "$OUT") }, script: `true`,
		differs: refused(refusedAtOnce, -32602, "failed to prepare process sandbox: cannot enforce sandbox read-only path $BENCH/rows/ws/.codex because it crosses writable symlink $BENCH/rows/ws/.codex")},
	{id: "G16", policy: entries{rootRead, special("project_roots", "write")}, with: gitDirectory, script: `echo x > .git/config; mkdir .agents`},
	{id: "G18", policy: rootWrite, with: gitDirectory, script: `echo x > .git/config`},
}

func gitDirectory(f *fixture) {
	f.file("ws/.git/config", "[core]\n")
	f.dir("ws/.git/hooks")
}

// The numbers of address families that rows use.
const (
	afUnix, afInet, afInet6, afNetlink, afPacket, afVsock = 1, 2, 10, 16, 17, 40
)

func socketOf(family, kind int) []string {
	return perl(fmt.Sprintf(`socket(S, %d, %d, 0) or fail()`, family, kind))
}

var networkRows = []sandboxRow{
	{id: "N01", policy: workspaceOnly, argv: socketOf(afInet, 1)},
	{id: "N02", policy: workspaceOnly, argv: socketOf(afInet, 2)},
	{id: "N03", policy: workspaceOnly, argv: socketOf(afInet6, 1)},
	{id: "N04", policy: workspaceOnly, argv: socketOf(afNetlink, 3)},
	{id: "N06", policy: workspaceOnly, argv: socketOf(afVsock, 1)},
	{id: "N08", policy: workspaceOnly, argv: socketOf(afUnix, 1)},
	{id: "N11", policy: workspaceOnly, argv: perl(`use Socket; socket(S, 1, 1, 0); bind(S, pack_sockaddr_un("s")) or fail()`)},
	{id: "N13", policy: workspaceOnly, argv: perl(`use Socket; socketpair(A, B, 1, 1, 0) or fail(); syswrite(A, "hi\n"); sysread(B, $x, 9); print $x; getpeername(A) or fail()`),
		differs: ends("getpeername says ENOTCONN, so that bash does not take itself for a network daemon", 1, false, stdout("hi\nerrno 107\n"))},
	{id: "N16", policy: workspaceOnly, script: `cut -d: -f1 /proc/net/dev | tail -n +3`},
	{id: "N20", policy: workspaceOnly, network: "enabled", argv: perl(
		`use Socket; socket(S, 2, 1, 0) or fail(); bind(S, pack_sockaddr_in(0, INADDR_LOOPBACK)) or fail(); listen(S, 1) or fail(); socket(C, 2, 1, 0); connect(C, getsockname(S)) or fail()`)},
	{id: "N21", policy: workspaceOnly, network: "enabled", argv: socketOf(afNetlink, 3)},
	{id: "N22", policy: rootWrite, argv: socketOf(afInet, 1)},
	{id: "N23", intent: intentFor(`{"type":"external","network":"restricted"}`, ""), argv: socketOf(afInet, 1)},
	{id: "N24", intent: intentFor(`{"type":"disabled"}`, ""), argv: socketOf(afInet, 1)},
	{id: "N33", policy: workspaceOnly, network: "enabled", argv: socketOf(afVsock, 1)},
	{id: "S05", asRoot: true, policy: workspaceOnly, script: `mount -t tmpfs none sub`},
	{id: "S08", policy: workspaceOnly, script: `unshare -U true`},
	{id: "S10", policy: workspaceOnly, script: `unshare -m true`},
	{id: "S14", policy: workspaceOnly, argv: perl(`chroot("/") or fail()`)},
}

// managedRows are the rows of the managed network that need no network; for the others
// see TestNetworkRows.
var managedRows = []sandboxRow{
	{id: "M01", policy: workspaceOnly, start: `"enforceManagedNetwork":true`, script: `true`,
		differs: failsClosed("managed proxy mode requires proxy environment variables")},
	{id: "M02", policy: workspaceOnly, start: `"enforceManagedNetwork":true,"env":{"PATH":"/usr/bin:/bin","HTTP_PROXY":"http://10.1.2.3:8080"}`, script: `true`,
		differs: failsClosed("managed proxy mode requires parseable loopback proxy endpoints")},
	{id: "M08", policy: workspaceOnly, argv: socketOf(afInet, 1),
		start: `"managedNetwork":{"loopbackPorts":[43123],"allowLocalBinding":true},"env":{"PATH":"/usr/bin:/bin","HTTP_PROXY":"http://127.0.0.1:43123"}`},
	{id: "M12", intent: "null", start: `"enforceManagedNetwork":true`, argv: socketOf(afInet, 1)},
	{id: "M22", policy: workspaceOnly, start: networkProxy(`"enabled":false`, ""), script: `true`},
}

// failsClosed returns the differences of a command whose managed network has no proxy.
func failsClosed(why string) []difference {
	return ends("the text has no place in a source file", 101, true, stderr("tether sandbox: failed to prepare host proxy routing bridge: "+why+"\n"))
}

var lifeRows = []sandboxRow{
	{id: "P01", policy: workspaceOnly, script: `set -- /proc/[0-9]*; echo $#; echo $$`},
	{id: "P03", asRoot: true, policy: workspaceOnly, script: `true >> /proc/sys/kernel/panic`,
		differs: asRoot(ends("/proc/sys is read-only for root too", 2, true, stderr("/bin/sh: 1: cannot create /proc/sys/kernel/panic: Read-only file system\n")))},
	{id: "P04", asRoot: true, policy: workspaceOnly, script: `grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cat /proc/self/uid_map /proc/self/setgroups`},
	{id: "P06", policy: rootWrite, script: `grep -E '^(NoNewPrivs|Seccomp:)' /proc/self/status`},
	{id: "P08", intent: intentFor(`{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}`, ""),
		script: `grep -E '^(NoNewPrivs|Seccomp:)' /proc/self/status`},
	{id: "P09", intent: intentFor(`{"type":"disabled"}`, ""), script: `echo x > $OUT/n; echo Seccomp; exit 3`},
	{id: "D01", policy: workspaceOnly, script: `ls -A /dev`},
	{id: "D05", policy: entries{special("minimal", "read"), special("project_roots", "write")},
		script: `echo x > ` + hostTemp("") + ` && echo x > ` + hostTemp("/tmp"), others: []string{hostTemp(""), hostTemp("/tmp")},
		varies:  []string{"end", "read"}, // with whether the reference is installed below /tmp
		differs: ends("without a grant, /tmp is private scratch wherever the workspace lies", 0, false, nil)},
	{id: "K01", policy: workspaceOnly, argv: perl(`kill(0, ` + fmt.Sprint(os.Getpid()) + `) or fail()`)},
	{id: "K03", policy: workspaceOnly, script: `kill -9 1; kill -TERM 1; sleep 0.3; echo still here`,
		differs: ends("nothing that is sent to PID 1 from inside reaches the command", 0, false, stdout("still here\n"))},
	{id: "K04", policy: workspaceOnly, script: `(sleep 3; echo late > late) & echo started`},
	{id: "K10", policy: workspaceOnly, script: `trap '' TERM; echo ready; (trap '' TERM; sleep 60) & sleep 60`, play: func(c *conn) {
		c.seen("p", "ready")
		c.ask("terminate", "process/terminate", `{"processId":"p"}`)
	}, differs: []difference{{"host", "placeholders go after terminate too", plainHost("inside")}}},
	{id: "exit-42", policy: workspaceOnly, script: `exit 42`},
	{id: "exit-101", policy: workspaceOnly, script: `exit 101`},
	{id: "E-SIGKILL", policy: workspaceOnly, script: `kill -KILL $$`},
	{id: "E-SIGSEGV", policy: workspaceOnly, script: `kill -SEGV $$`},
	{id: "E-SIGSYS", policy: workspaceOnly, script: `kill -SYS $$`},
	{id: "E-NSIGSYS", intent: "null", script: `kill -SYS $$`},
	{id: "E-SIGPIPE", policy: workspaceOnly, script: `kill -PIPE $$; exit 7`,
		differs: ends("SIGPIPE is not ignored", 141, false, nil)},
	{id: "E01", policy: workspaceOnly, argv: []string{"/no/such/program"},
		differs: refused("a missing program is an error of the start", -32603, "No such file or directory (os error 2): program \"/no/such/program\"")},
	{id: "E02", policy: workspaceOnly, argv: []string{"$WS/a.txt"},
		differs: refused("a program that cannot run is an error of the start", -32603, "Permission denied (os error 13): program \"$BENCH/rows/ws/a.txt\"")},
	{id: "E03", intent: "null", argv: []string{"/no/such/program"},
		differs: refused("the text says what is missing", -32603, "No such file or directory (os error 2): program \"/no/such/program\"")},
	{id: "E04", policy: workspaceOnly, script: `nope-cmd`},
	{id: "X01", policy: workspaceOnly, script: `echo Permission denied; exit 1`},
	{id: "X02", policy: workspaceOnly, script: `echo Permission denied; exit 0`},
	{id: "X04", policy: workspaceOnly, script: `echo Permission denied; exit 126`},
	{id: "X06", policy: workspaceOnly, script: `echo boom; exit 1`},
	{id: "X07", intent: "null", script: `echo Permission denied; exit 1`},
	{id: "X12", policy: workspaceOnly, start: `"pipeStdin":true`, script: `printf 'Permission de'; read x; echo nied; exit 1`, play: sendRest},
	{id: "X13", policy: workspaceOnly, start: `"pipeStdin":true`, script: `printf 'Permission de'; read x; echo nied >&2; exit 1`, play: sendRest},
	{id: "X14", policy: workspaceOnly, script: `echo EPERM EACCES forbidden; exit 1`},
	{id: "X15", policy: workspaceOnly, script: `exit 159`},
}

// sendRest lets a command print the second half when the first has arrived.
func sendRest(c *conn) {
	c.seen("p", "Permission de")
	c.write("p", "1", "\n")
}

var terminalRows = []sandboxRow{
	{id: "T01", policy: workspaceOnly, start: `"tty":true`, script: `tty; test -t 0 && test -t 1 && test -t 2 && echo yes; stty size; (true < /dev/tty) && echo open`,
		differs: ends("the terminal controls the session", 0, false, map[string]string{"pty": "/dev/console\r\nyes\r\n24 80\r\nopen\r\n"})},
	{id: "T05", policy: workspaceOnly, start: `"tty":true`, script: `echo x > $OUT/n`},
	{id: "T07", policy: workspaceOnly, start: `"tty":true`, script: `trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done`,
		play:    func(c *conn) { c.seen("p", "ready\r\n"); c.write("p", "1", "\x03") },
		differs: ends("ctrl-c reaches the command", 5, false, map[string]string{"pty": "ready\r\n^Ccaught\r\n"})},
	{id: "T10", policy: workspaceOnly, script: `trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done`,
		play: func(c *conn) {
			c.seen("p", "ready")
			c.ask("signal", "process/signal", `{"processId":"p","signal":"interrupt"}`)
		},
		differs: ends("interrupt reaches the command", 5, false, stdout("ready\ncaught\n"))},
	{id: "T12", policy: workspaceOnly, start: `"tty":true`, script: `cat`,
		play: func(c *conn) {
			c.write("p", "1", "hello\n")
			c.seen("p", "hello\r\nhello\r\n")
			c.write("p", "2", "\x04")
		}},
	{id: "I01", policy: workspaceOnly, script: `cat; readlink /proc/self/fd/0`},
	{id: "I02", policy: workspaceOnly, start: `"pipeStdin":true`, script: `read x; echo "got $x"`,
		play: func(c *conn) { c.write("p", "1", "line\n") }},
}

var environmentRows = []sandboxRow{
	{id: "V01", policy: workspaceOnly, argv: []string{"/usr/bin/env"}, start: `"env":{"PATH":"/usr/bin:/bin","A":"1","LD_X":"kept"}`},
	{id: "V03", policy: workspaceOnly, argv: []string{"/usr/bin/env"}, start: `"env":{}`},
	{id: "V04", policy: readOnly.and(special("tmpdir", "write")), start: `"env":{"TMPDIR":"$OUT"}`, script: `echo x > $OUT/n`,
		differs: []difference{{"host", "the records of placeholders are not in the TMPDIR of a command", strings.Replace(plainHost("inside"), "-rw------- out/secret", "-rw-r--r-- out/n \"x\\n\"\n-rw------- out/secret", 1)}}},
	{id: "V06", policy: readOnly.and(special("tmpdir", "write")), start: `"env":{}`, script: `echo x > ` + hostTemp("/tmp"), others: []string{hostTemp("/tmp")}},
	{id: "V07", policy: workspaceOnly, start: `"arg0":"renamed"`, argv: []string{"/bin/sh", "-c", `tr '\000' ' ' < /proc/$$/cmdline`}},
	{id: "V10", policy: workspaceOnly, start: `"env":{"PATH":"$WS/bin:/usr/bin:/bin"}`, script: `echo real`,
		with: func(f *fixture) { fakeBubblewrap(f, "ws/bin/bwrap") }},
	{id: "O03", policy: workspaceOnly, over: `"policyContext":{"cwd":"file://$OUT","workspaceRoots":["file://$OUT"]}`,
		script: `echo x > $OUT/n; echo x > n`},
	{id: "L01", policy: readOnly, over: `"useLegacyLandlock":true`, script: `true`,
		differs: refused(refusedAtOnce, -32602, "failed to prepare process sandbox: filesystem-restricted execution requires bubblewrap to isolate app-server sockets")},
	{id: "V09", policy: workspaceOnly, start: `"env":{"PATH":"$OUT/bin:/usr/bin:/bin"}`, script: `echo real`,
		with:    func(f *fixture) { fakeBubblewrap(f, "out/bin/bwrap") },
		differs: ends("no request decides which bubblewrap runs", 0, false, stdout("real\n"))},
}

// fakeBubblewrap puts a program where a search of PATH would find it.
func fakeBubblewrap(f *fixture, name string) {
	f.file(name, "#!/bin/sh\ncase $1 in --help) echo --as-pid-1 --perms --argv0;; *) echo fake;; esac\n")
	if err := os.Chmod(f.expand("$FX/"+name), 0o755); err != nil {
		f.t.Fatal(err)
	}
}
