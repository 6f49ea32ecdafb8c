//go:build interop

package interop_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShellSnapshots plays starts with a shell snapshot.
func TestShellSnapshots(t *testing.T) {
	for _, x := range snapshotExchanges {
		t.Run(x.name, func(t *testing.T) { x.run(t) })
	}
}

// The real client asks for snapshots when its feature is on: start-up files are read
// once for three commands.
func TestCodexShellSnapshot(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		const commands = 3
		model := newModel(t, func(turn int, outputs []string) modelItem {
			if turn > commands {
				return say("done")
			}
			return execCommand(turn, map[string]any{"cmd": "greet; echo $RC", "yield_time_ms": 30000})
		})
		home := codexHome(t, model.URL)
		serverHome := filepath.Join(home, "server")
		if err := os.Mkdir(serverHome, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(serverHome, ".bash_profile"), []byte("echo x >>$HOME/count\ngreet() { echo hello; }; export RC=exported\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := command(t, who, "--listen", "ws://127.0.0.1:0")
		cmd.Env = append(cmd.Env, "HOME="+serverHome)
		server := startCommand(t, who, cmd)
		t.Cleanup(server.stop)

		ctx, cancel := context.WithTimeout(t.Context(), codexTimeout)
		defer cancel()
		client := exec.CommandContext(ctx, program(t, ref), "exec", "--json", "--skip-git-repo-check", "--enable", "shell_snapshot_v2", "do it")
		client.Dir = filepath.Join(home, "ws")
		client.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(home, "user"), "CODEX_HOME=" + filepath.Join(home, "codex"),
			"CODEX_EXEC_SERVER_URL=" + server.url, "LANG=C.UTF-8"}
		if out, err := client.CombinedOutput(); err != nil {
			t.Fatalf("codex exec: %v\n%s", err, out)
		}
		model.mu.Lock()
		outputs := strings.Join(model.outputs, "\n")
		model.mu.Unlock()
		if n := strings.Count(outputs, "hello\nexported"); n != commands {
			t.Errorf("%d of %d commands saw the state of the shell:\n%s", n, commands, outputs)
		}
		count, _ := os.ReadFile(filepath.Join(serverHome, "count"))
		if n := strings.Count(string(count), "x"); n != 1 {
			t.Errorf("start-up files were read %d times", n)
		}
	})
}

// A snapHome is a home directory with start-up files, for one player.
type snapHome struct {
	c   *conn
	dir string
	n   int
}

// newSnapHome makes one; files are its start-up files by name.
func newSnapHome(p *player, files map[string]string) *snapHome {
	h := &snapHome{c: p.open(), dir: p.t.TempDir()}
	h.write(files)
	return h
}

func (h *snapHome) write(files map[string]string) {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte("echo x >>$HOME/count\n"+text), 0o600); err != nil {
			h.c.p.t.Fatal(err)
		}
	}
}

// bash is a home for bash with a profile.
func bashHome(p *player, profile string) *snapHome {
	return newSnapHome(p, map[string]string{".bash_profile": profile})
}

// snapPolicy lets a command inherit nothing but the home.
const snapPolicy = `"envPolicy":{"inherit":"none","ignoreDefaultExcludes":false,"exclude":["DROP*"],"set":{"HOME":"%s","POLICY":"policy"},"includeOnly":[]}`

// run runs a script in a login shell and notes its end and how often start-up files
// have been read.
func (h *snapHome) run(label, shell, script, extra string) {
	h.n++
	id := fmt.Sprint("p", h.n)
	name := filepath.Base(shell)
	members := fmt.Sprintf(`"cwd":"file:///tmp",`+snapPolicy+`,"shellSnapshot":{"scopeId":"scope","shell":{"name":%q,"path":%q}}`, h.dir, name, shell)
	if extra != "" {
		members += "," + extra
	}
	h.c.ask(label+": start", "process/start", startParams(id, []string{shell, "-lc", script, "zero", "a b", "c"}, members))
	h.c.process(label, id)
	count, _ := os.ReadFile(filepath.Join(h.dir, "count"))
	h.c.p.note(label+": start-up files read", strings.Count(string(count), "x"))
}

const bash = "/bin/bash"

// snapDiffers is an intended difference of the end of a command.
func snapDiffers(label, reason string, code int, streams map[string]string) difference {
	end := map[string]any{"exitCode": code, "numbers": "sound", "sandboxDenied": false}
	for stream, text := range streams {
		end[stream] = text
	}
	return difference{label, reason, canonical(end)}
}

// reads is an intended difference of how often start-up files are read.
func reads(label, reason string, n int) difference {
	return difference{label + ": start-up files read", reason, fmt.Sprint(n)}
}

var snapshotExchanges = []exchange{
	{name: "snapshot/state", compares: wholeReplies, play: func(p *player) {
		h := bashHome(p, `shopt -s expand_aliases extglob
alias hi='echo "aliased it'\''s"'
greet() { case $1 in +(a)) echo "hello $1";; esac; }
export RC="it's" LINES2='one
two' EMPTY=
set -o noclobber -o pipefail -u
`)
		for i := range 3 {
			h.run(fmt.Sprint("state ", i), bash, "hi\ngreet aaa; echo \"$RC|$LINES2|${EMPTY-unset}|$POLICY\"; echo \"$-|$(set -o | grep pipefail)|$0|$#|$1|$2\"; pwd; ls /proc/self/fd | wc -l; exit 9", "")
		}
		h.run("terminal", bash, "hi\ngreet aa; exit 4", `"tty":true`)
		h.run("argv[0]", bash, "greet aaa; echo $0", `"arg0":"other"`)
		h.run("another scope", bash, "greet a", `"shellSnapshot":{"scopeId":"other","shell":{"name":"bash","path":"/bin/bash"}}`)
		h.run("another directory", bash, "greet a; pwd", `"cwd":"file:///usr"`)
		h.run("another path", bash, "greet a", `"shellSnapshot":{"scopeId":"scope","shell":{"name":"bash","path":"/usr/bin/bash"}}`)
	}},
	{name: "snapshot/interactive files", compares: wholeReplies, play: func(p *player) {
		h := newSnapHome(p, map[string]string{".bash_profile": "export A=profile", ".bashrc": "A=$A+rc; f() { echo f; }"})
		h.run("first", bash, "f; echo $A", "")
		h.run("second", bash, "f; echo $A", "")
	}},
	{name: "snapshot/variables", compares: wholeReplies, differs: []difference{
		snapDiffers("second", "variables of the first command are not passed to the next", 0, map[string]string{"stdout": "rc policy none none none none two\n"}),
		snapDiffers("unset", "a variable that start-up files unset stays unset", 0, map[string]string{"stdout": "gone\n"}),
	}, play: func(p *player) {
		h := bashHome(p, "export A=rc POLICY=rc MY_TOKEN=rc DROPPED=rc CODEX_TOOL_CALL_ID=rc; unset PLAIN")
		const script = `echo "$A $POLICY ${MY_TOKEN-none} ${DROPPED-none} ${CODEX_TOOL_CALL_ID-none} ${FIRST-none} ${SECOND-none}"`
		h.run("first", bash, script, `"env":{"A":"request","FIRST":"one"}`)
		h.run("second", bash, script, `"env":{"SECOND":"two"}`)
		h.run("metadata", bash, `echo "$CODEX_TOOL_CALL_ID"`, `"metadata":{"toolCallId":"call"}`)
		h.run("no policy", bash, `echo "$A ${MY_TOKEN-none} ${DROPPED-none}"`, fmt.Sprintf(`"envPolicy":null,"env":{"HOME":%q,"PATH":"/usr/bin:/bin"}`, h.dir))
		h.run("unset", bash, `echo "${PLAIN-gone}"`, fmt.Sprintf(`"envPolicy":{"inherit":"all","ignoreDefaultExcludes":false,"exclude":[],"set":{"HOME":%q},"includeOnly":[]}`, h.dir))
	}},
	{name: "snapshot/no capture", compares: wholeReplies, differs: []difference{
		snapDiffers("exit trap 0", "a trap of start-up files is not lost", 0, map[string]string{"stdout": "ran\nbye\n"}), reads("exit trap 0", "the command reads them itself", 2),
		snapDiffers("exit trap 1", "a trap of start-up files is not lost", 0, map[string]string{"stdout": "ran\nbye\n"}), reads("exit trap 1", "the command reads them itself", 3),
		snapDiffers("errexit 0", "errexit is not lost", 1, nil), snapDiffers("errexit 1", "errexit is not lost", 1, nil),
		snapDiffers("mask 0", "the mask is not lost", 0, map[string]string{"stdout": "0077\n"}), snapDiffers("mask 1", "the mask is not lost", 0, map[string]string{"stdout": "0077\n"}),
		snapDiffers("bytes 0", "bytes that are no text are kept", 0, map[string]string{"stdout": " ff\n"}), snapDiffers("bytes 1", "bytes that are no text are kept", 0, map[string]string{"stdout": " ff\n"}),
		reads("bytes 0", "bytes that are no text can be captured too", 1), reads("bytes 1", "bytes that are no text can be captured too", 1),
	}, play: func(p *player) {
		for _, row := range [][3]string{
			{"exit", "exit 3", "echo ran"}, {"exec", "exec echo instead", "echo ran"}, {"noise", `echo noise; printf '\0\1'; echo error >&2`, "echo ran"},
			{"syntax error", "if then", "echo ran"}, {"no execution", "set -n", "echo ran"}, {"failure", "set -e; false", "echo ran"},
			{"debug trap", "trap 'echo step' DEBUG", "echo ran"}, {"exit trap", "trap 'echo bye' EXIT", "echo ran"},
			{"input", "read -r line; export line=\"<$line> $?\"", "echo \"$line\""}, {"errexit", "set -e", "false; echo ran"},
			{"mask", "umask 077", "umask"}, {"directory", "cd /usr", "pwd"}, {"bytes", `export A=$'\xff'`, "printf %s \"$A\" | od -An -tx1"},
		} {
			h := bashHome(p, row[1])
			for i := range 2 {
				h.run(fmt.Sprint(row[0], " ", i), bash, row[2], "")
			}
		}
	}},
	{name: "snapshot/large", compares: wholeReplies, play: func(p *player) {
		var profile strings.Builder
		for i := range 600 {
			fmt.Fprintf(&profile, "f%d() { echo %s; }\n", i, strings.Repeat("x", 1000))
		}
		h := bashHome(p, profile.String())
		h.run("first", bash, "f599 | wc -c", "")
		h.run("second", bash, "f0 | wc -c", "")
	}},
	{name: "snapshot/sh", compares: wholeReplies, differs: []difference{
		snapDiffers("dash 0", "functions and aliases are not lost", 0, map[string]string{"stdout": "aliased\nfunction\nrc\n"}), reads("dash 0", "the command reads them itself", 2),
		snapDiffers("dash 1", "functions and aliases are not lost", 0, map[string]string{"stdout": "aliased\nfunction\nrc\n"}), reads("dash 1", "the command reads them itself", 3),
	}, play: func(p *player) {
		if link, _ := filepath.EvalSymlinks("/bin/sh"); filepath.Base(link) != "dash" {
			p.t.Skip("sh is not dash here")
		}
		h := newSnapHome(p, map[string]string{".profile": "alias hi='echo aliased'; f() { echo function; }; export A=rc"})
		for i := range 2 {
			h.run(fmt.Sprint("dash ", i), "/bin/sh", "hi\nf\necho $A", "")
		}
	}},
	{name: "snapshot/zsh", liveOnly: "few machines have zsh", compares: wholeReplies, differs: []difference{
		snapDiffers("zsh 0", "aliases are not lost", 0, map[string]string{"stdout": "aliased\nfunction\nrc zero a b\nextendedglob\nnohashdirs\nlogin\n"}),
		snapDiffers("zsh 1", "aliases are not lost", 0, map[string]string{"stdout": "aliased\nfunction\nrc zero a b\nextendedglob\nnohashdirs\nlogin\n"}),
	}, play: func(p *player) {
		zsh, err := exec.LookPath("zsh")
		if err != nil {
			p.t.Skip("no zsh here")
		}
		h := newSnapHome(p, map[string]string{".zprofile": "alias hi='echo aliased'; export A=rc; setopt extended_glob", ".zshrc": "f() { echo function; }"})
		for i := range 2 {
			h.run(fmt.Sprint("zsh ", i), zsh, "hi\nf\necho $A $0 $1\nsetopt", "")
		}
	}},
	{name: "snapshot/errors", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		login := []string{bash, "-lc", "echo ran"}
		ask := func(label string, argv []string, snapshot string) {
			c.ask(label, "process/start", startParams(label, argv, `"shellSnapshot":`+snapshot))
		}
		const shell = `"shell":{"name":"bash","path":"/bin/bash"}`
		ask("no scope", login, `{"scopeId":"",`+shell+`}`)
		ask("long scope", login, `{"scopeId":"`+strings.Repeat("é", 129)+`",`+shell+`}`)
		ask("longest scope", login, `{"scopeId":"`+strings.Repeat("é", 128)+`",`+shell+`}`)
		for _, name := range []string{"fish", "Bash", "", "powershell", "cmd"} {
			ask("shell "+name, login, `{"scopeId":"s","shell":{"name":"`+name+`","path":"/bin/bash"}}`)
		}
		ask("scope before shell", login, `{"scopeId":"","shell":{"name":"fish","path":"/bin/bash"}}`)
		ask("scope before argv", []string{}, `{"scopeId":"",`+shell+`}`)
		ask("scope of another command", []string{"/bin/true"}, `{"scopeId":"",`+shell+`}`)
		ask("shell of another command", []string{"/bin/true"}, `{"scopeId":"s","shell":{"name":"fish","path":"/bin/bash"}}`)
		ask("empty argv", []string{}, `{"scopeId":"s",`+shell+`}`)
		ask("no shell", login, `{"scopeId":"s"}`)
		ask("no scope member", login, `{`+shell+`}`)
		ask("no path", login, `{"scopeId":"s","shell":{"name":"bash"}}`)
		ask("number", login, `{"scopeId":5,`+shell+`}`)
		ask("text as shell", login, `{"scopeId":"s","shell":"bash"}`)
		ask("null as shell", login, `{"scopeId":"s","shell":null}`)
		ask("text", login, `"x"`)
		ask("more members", login, `{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash","x":1},"y":2}`)
		c.ask("cwd before scope", "process/start", startParams("cwd", login, `"cwd":"file:///C:/x","shellSnapshot":{"scopeId":"",`+shell+`}`))
	}},
	{name: "snapshot/failed starts", compares: errorCodes, play: func(p *player) {
		c := p.open()
		for range 2 {
			c.ask("missing shell", "process/start", startParams("p", []string{"/no/bash", "-lc", "true"}, `"shellSnapshot":{"scopeId":"s","shell":{"name":"bash","path":"/no/bash"}}`))
			c.ask("missing cwd", "process/start", startParams("p", []string{bash, "-lc", "true"}, `"cwd":"file:///no/such","shellSnapshot":{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}`))
		}
	}},
	{name: "snapshot/sandbox", compares: wholeReplies, play: func(p *player) {
		h := bashHome(p, `f() { echo "captured in: $IN"; }; (: >"$HOME/made") 2>/dev/null && export IN=open || export IN=closed; rm -f "$HOME/made"`)
		writable := entries{special("root", "write")}.intent("restricted", "")
		closed := entries{special("root", "read")}.intent("restricted", "")
		expand := func(intent string) string { return `"sandbox":` + strings.ReplaceAll(intent, "$WS", "/usr") }
		for i := range 2 {
			h.run(fmt.Sprint("read-only ", i), bash, "f", expand(closed))
			h.run(fmt.Sprint("writable ", i), bash, "f", expand(writable))
			h.run(fmt.Sprint("without ", i), bash, "f", "")
		}
	}},
}
