package conformance

import (
	"os"
	"testing"
)

var tty = map[string]any{"tty": true}

// interrupted types Ctrl-C when the command is ready.
func interrupted(t *testing.T, p *process) {
	p.says(t, "ready")
	p.write(t, "\x03")
}

// signalled sends an interrupt request when the command is ready.
func signalled(t *testing.T, p *process) {
	p.says(t, "ready")
	p.signal(t, "interrupt")
}

func terminalRows() []row {
	// The sleep is short: a shell runs its trap when its child has ended.
	const trap = `trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done`
	rows := []row{
		// A command may inject input, because only its own terminal gets it.
		{id: "T04", policy: workspaceOnly(), params: tty, script: `$PROBE tiocsti; true`, out: []string{`^(ok|tiocsti: E\w+)\r$`}},
		{id: "T05", policy: workspaceOnly(), params: tty, script: `echo x > $OUT/n`, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n"}},
		{id: "T12", policy: workspaceOnly(), params: tty, script: `echo ready; cat`, out: []string{`^hello\r\nhello\r$`}, drive: func(t *testing.T, p *process) {
			p.says(t, "ready\r\n") // the end of the line may arrive apart from it, with the echo in between
			p.write(t, "hello\n")
			p.says(t, "hello\r\nhello\r\n")
			p.write(t, "\x04")
		}},
		{id: "T13", policy: workspaceOnly(), params: tty, script: `trap 'stty size; exit 0' WINCH; stty size; echo ready; while :; do sleep 0.1; done`,
			out: []string{`^24 80\r$`, `^31 97\r$`}, drive: func(t *testing.T, p *process) {
				p.says(t, "ready")
				p.resize(t, 31, 97)
			}, Reference: "there is no resize"},
		{id: "T14", policy: workspaceOnly(), params: tty, argv: []string{"/bin/bash", "-i"}, out: []string{`Stopped`, `woken`}, not: []string{"no job control"},
			drive: func(t *testing.T, p *process) {
				p.write(t, "sleep 1000 & echo started\n")
				p.says(t, "started\r\n")
				p.write(t, "kill -STOP %1; wait %1; jobs; kill -9 %1; wait -f %1; echo woken | tr a-z a-z\n")
				p.says(t, "\r\nwoken")
				p.write(t, "exit 0\n")
			}, Reference: "there is no controlling terminal"},
		{id: "I01", policy: workspaceOnly(), script: `readlink /proc/self/fd/0; cat; echo end`, out: []string{"^/dev/null$", "^end$"}},
		{id: "I02", policy: workspaceOnly(), params: map[string]any{"pipeStdin": true}, script: `echo ready; read line; echo got "$line"`, out: []string{"^got a line$"},
			drive: func(t *testing.T, p *process) {
				p.says(t, "ready")
				p.write(t, "a line\n")
			}},
	}
	const killed = "the sandbox is killed, the trap does not run"
	for _, on := range []struct {
		name   string
		policy policy
		note   string
	}{{"", workspaceOnly(), killed}, {"-un", unrestricted(), ""}, {"-none", unconfined(), ""}} {
		rows = append(rows,
			row{id: "T01" + on.name, policy: on.policy, params: tty, probe: "tty",
				out:       []string{"isatty 0: true", "isatty 2: true", "open /dev/tty: ok", "size: 80x24", "session leader: true", "foreground: true"},
				Reference: on.note},
			row{id: "T07" + on.name, policy: on.policy, params: tty, script: trap, drive: interrupted, exit: 5, denied: no, out: []string{`caught\r$`}, Reference: on.note},
			row{id: "T07-plain" + on.name, policy: on.policy, params: tty, script: `echo ready; exec sleep 1000`, drive: interrupted, exit: 130, denied: no,
				Reference: "with a terminal, death by a signal is exit code 1"},
			row{id: "T09" + on.name, policy: on.policy, params: tty, script: trap, drive: signalled, exit: 5, denied: no, out: []string{"^caught"}, Reference: on.note},
			row{id: "T10" + on.name, policy: on.policy, script: trap, drive: signalled, exit: 5, denied: no, out: []string{"^caught"}, Reference: on.note},
			row{id: "T10-plain" + on.name, policy: on.policy, script: `echo ready; exec sleep 1000`, drive: signalled, exit: 130, denied: no},
		)
	}
	return rows
}

func environRows() []row {
	fakes := func(dirs ...string) func(*fixture) {
		return func(fx *fixture) {
			for _, dir := range dirs {
				fx.program(dir+"/bwrap", "#!/bin/sh\necho fake > $OUT/fake-ran\nexit 9\n")
			}
		}
	}
	fake := func(id string, dir, note string) row {
		return row{id: id, policy: workspaceOnly(), setup: fakes(dir), script: `echo x > $OUT/n`, env: map[string]string{"PATH": dir + ":/usr/bin:/bin", "OUT": "$OUT"},
			exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n", "-$OUT/fake-ran"}, Reference: note}
	}
	temporary := files(special("root", "read"), special("tmpdir", "write"))
	return []row{
		{id: "V01", policy: workspaceOnly(), argv: []string{"/usr/bin/env"}, env: map[string]string{"A": "1", "LD_LIBRARY_PATH": "/nowhere", "B": "x y"}, check: exactly("A=1", "B=x y", "LD_LIBRARY_PATH=/nowhere", "PWD=$WS")},
		{id: "V03", policy: workspaceOnly(), argv: []string{"/usr/bin/env"}, env: map[string]string{}, check: exactly("PWD=$WS")},
		{id: "V04", policy: temporary, setup: func(fx *fixture) { fx.mkdir("$FX/temp") }, script: `echo x > $TMPDIR/n`, env: map[string]string{"TMPDIR": "$FX/temp", "PATH": "/usr/bin:/bin"},
			host: []string{"+$FX/temp/n"}},
		{id: "V05", policy: temporary.also("temporaryDirectories", []string{"file://$OUT"}), script: `echo x > $OUT/n`, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n"}},
		{id: "V06", policy: temporary, script: writeOutside("/tmp"), exit: 2, denied: yes, out: []string{textROFS}, check: outside("/tmp", false)},
		{id: "V07", policy: workspaceOnly(), argv: []string{"/bin/sh", "-c", `cat /proc/$$/cmdline | tr '\0' ' '; true`}, params: map[string]any{"arg0": "x"}, out: []string{"^x -c"}},
		{id: "V07-un", policy: unrestricted(), argv: []string{"/bin/sh", "-c", `cat /proc/$$/cmdline | tr '\0' ' '; true`}, params: map[string]any{"arg0": "x"}, out: []string{"^x -c"}},
		fake("V09", "$FX/fake", "the program that the client's PATH names runs unconfined"),
		fake("V10", "$WS", ""),
		fake("V11", "$WS/sub", ""),
		{id: "V17", policy: workspaceWrite(), setup: func(fx *fixture) {
			fakes("/tmp/" + fx.mark)(fx)
			fx.t.Cleanup(func() { fx.check(os.RemoveAll("/tmp/" + fx.mark)) })
		}, script: `echo x > $OUT/n`, env: map[string]string{"PATH": "/tmp/$MARK:/usr/bin:/bin", "OUT": "$OUT"}, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n", "-$OUT/fake-ran"},
			Reference: "the server of an ordinary user runs it"},
		{id: "V14", policy: workspaceOnly(), argv: []string{"/bin/bash", "-c", "echo done"}, env: map[string]string{"HOME": "$FX/home", "PATH": "/usr/bin:/bin"},
			setup: func(fx *fixture) { fx.write("$FX/home/.bashrc", "echo sourced\n") }, out: []string{"done"}, not: []string{"sourced"},
			Reference: "bash sources ~/.bashrc"},
	}
}
