//go:build interop

package interop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var processExchanges = []exchange{
	{name: "process/start with all fields", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.ask("start", "process/start", startParams("all", sh(`echo "$0 $A"; pwd; echo err >&2; env | grep ^CODEX_ | sort; exit 7`),
			`"env":{"A":"b","PATH":"/usr/bin:/bin","CODEX_THREAD_ID":"overridden"},"envPolicy":null,"tty":false,"pipeStdin":false,
			"arg0":null,"sandbox":null,"enforceManagedNetwork":false,"managedNetwork":null,"networkProxy":null,"shellSnapshot":null,
			"metadata":{"threadId":"01a1dcda-e67a-7ad2-8661-19fdd86f3f10","toolCallId":"call1"},"unknown":{"x":1}`))
		c.process("end", "all")
		c.start("less", sh("env | grep ^CODEX_"), `"metadata":{"threadId":null}`)
		c.process("metadata without values", "less")
		c.start("", sh("echo no name"), "")
		c.process("empty id", "")
		long := strings.Repeat("long ", 2000)
		c.start(long, sh("echo long name"), "")
		c.process("long id", long)
	}},
	{name: "process/exit codes", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, script := range []string{"exit 0", "exit 1", "exit 255", "kill -INT $$", "kill -KILL $$", "kill -TERM $$",
			"kill -HUP $$", "kill -SEGV $$", "kill -USR1 $$"} {
			c.start(script, sh(script), "")
			c.process(script, script)
		}
	}},
	{name: "process/exit codes on a terminal", compares: wholeReplies, differs: []difference{
		ended("kill -KILL $$", 137), ended("kill -TERM $$", 143), ended("kill -SEGV $$", 139)},
		play: func(p *player) {
			c := p.open()
			for _, script := range []string{"exit 0", "exit 3", "kill -KILL $$", "kill -TERM $$", "kill -SEGV $$"} {
				c.start(script, sh(script), `"tty":true`)
				c.process(script, script)
			}
		}},
	{name: "process/failed starts", compares: errorCodes, play: playFailedStarts},
	{name: "process/failed start texts", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.ask("argv empty", "process/start", startParams("x", []string{}, ""))
		c.start("taken", sh("read x"), `"pipeStdin":true`)
		c.ask("id in use", "process/start", startParams("taken", sh("true"), ""))
		c.start("over", sh("true"), "")
		c.gone("over", "process/closed")
		c.ask("id of a closed process", "process/start", startParams("over", sh("true"), ""))
		c.ask("argv empty wins over id in use", "process/start", startParams("taken", []string{}, ""))
	}},
	{name: "process/failed start leaves the id free", compares: errorCodes, play: func(p *player) {
		c := p.open()
		c.ask("fails", "process/start", startParams("again", []string{"/no/such/program"}, ""))
		c.ask("read", "process/read", `{"processId":"again"}`)
		c.ask("succeeds", "process/start", startParams("again", sh("echo now"), ""))
		c.process("end", "again")
	}},
	{name: "process/failed starts on a terminal", compares: errorCodes, differs: []difference{
		{"missing cwd", "a missing cwd is an error, with a terminal too", `{"error":{"code":-32603}}`},
		{"cwd is a file", "a bad cwd is an error, with a terminal too", `{"error":{"code":-32603}}`},
	}, play: func(p *player) {
		c := p.open()
		for _, row := range [][3]string{
			{"absolute", "/no/such", ""}, {"relative", "./no-such", ""}, {"bare", "no-such-program", ""},
			{"bare without PATH", "no-such-program", `"env":{}`}, {"directory", "/usr", ""}, {"empty", "", ""},
			{"missing cwd", "/bin/true", `"cwd":"$CWD/missing"`}, {"cwd is a file", "/bin/true", `"cwd":"file:///etc/passwd"`},
		} {
			extra := `"tty":true`
			if row[2] != "" {
				extra += "," + row[2]
			}
			c.ask(row[0], "process/start", startParams(row[0], []string{row[1]}, extra))
		}
	}},
	{name: "process/launch", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, row := range [][2]string{
			{"fds", `ls -l /proc/self/fd | awk 'NR>1 && $9<3 {print $9}'; readlink /proc/self/fd/0`},
			{"session", `set -- $(cat /proc/$$/stat); [ "$1" = "$5" ] && [ "$1" = "$6" ] && echo leader; umask`},
			{"signals", `grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status`},
			{"stdin is empty", `cat; echo end`},
			{"output without newline", `printf x; printf y >&2`},
			{"binary output", `printf '\000\377\n'`},
			{"no output", `:`},
			{"large", `head -c 300000 /dev/zero | tr '\000' a; head -c 100000 /dev/zero | tr '\000' b >&2`},
		} {
			c.start(row[0], sh(row[1]), "")
			c.process(row[0], row[0])
		}
		c.start("args", []string{"/bin/echo", "a b", "", "*", "$HOME", "ä"}, "")
		c.process("arguments", "args")
		c.start("path", []string{"only-here"}, `"env":{"PATH":`+quote(onPath(p))+`}`)
		c.process("program from the child's PATH", "path")
		c.start("nopath", []string{"echo", "found"}, `"env":{}`)
		c.process("no PATH: default path", "nopath")
		c.start("rel", []string{"./only-here"}, `"cwd":`+quote("file://"+onPath(p)))
		c.process("relative to cwd", "rel")
	}},
	{name: "process/arg0", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.start("a", []string{"/bin/sh", "-c", `cat /proc/$$/cmdline | tr '\000' ' '`}, `"arg0":"renamed"`)
		c.process("arg0", "a")
		c.start("e", []string{"/bin/sh", "-c", `cat /proc/$$/cmdline | tr '\000' '|'`}, `"arg0":""`)
		c.process("empty arg0", "e")
	}},
	{name: "process/arg0 on a terminal", compares: errorCodes, differs: []difference{
		{"start", "arg0 replaces only argv[0], not the program, with a terminal too", `{"result":{"processId":"a","sandboxType":"none"}}`},
	}, play: func(p *player) {
		c := p.open()
		c.ask("start", "process/start", startParams("a", sh("true"), `"tty":true,"arg0":"renamed"`))
	}},
	{name: "process/terminal", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, row := range [][2]string{
			{"size", `stty size`}, {"modes", `stty -a | tail -n +2`}, {"is one", `test -t 0 && test -t 1 && test -t 2 && echo yes`},
			{"one stream", `echo out; echo err >&2`}, {"controlling", `echo hello > /dev/tty`}, {"no TERM", `echo "[$TERM]"`},
			{"SHELL", `test "$SHELL" = "$(getent passwd "$(id -u)" | cut -d: -f7)" && echo "the user's"`},
		} {
			c.start(row[0], sh(row[1]), `"tty":true`)
			c.process(row[0], row[0])
		}
	}},
	{name: "process/output after exit", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		late := p.newGate("late")
		c.start("late", sh(`echo early; (`+late.awaited()+`; echo late) & read x; exit 3`), `"pipeStdin":true`)
		c.seen("late", "early")
		c.write("late", "1", "go\n")
		c.gone("late", "process/exited")
		c.ask("read after exit", "process/read", `{"processId":"late"}`)
		late.open(p)
		c.process("end", "late")
	}},
	{name: "process/signal", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.start("s", sh(`trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done`), "")
		c.seen("s", "ready")
		c.ask("signal", "process/signal", `{"processId":"s","signal":"interrupt"}`)
		c.process("end", "s")
		c.ask("after exit", "process/signal", `{"processId":"s","signal":"interrupt"}`)
		c.start("g", sh(`echo ready; sleep 60 | cat`), "")
		c.seen("g", "ready")
		c.ask("whole group", "process/signal", `{"processId":"g","signal":"interrupt"}`)
		c.process("group", "g")
		c.ask("unknown", "process/signal", `{"processId":"nobody","signal":"interrupt"}`)
	}},
	{name: "process/terminate", compares: wholeReplies, differs: []difference{
		{"end", "TERM comes first", `{"exitCode":143,"numbers":"sound","sandboxDenied":false,"stdout":"ready\n"}`},
		{"terminal", "TERM comes first; 128+n with a terminal too", `{"exitCode":143,"numbers":"sound","pty":"ready\r\n","sandboxDenied":false}`},
	}, play: func(p *player) {
		c := p.open()
		c.start("t", sh(`echo ready; sleep 60`), "")
		c.seen("t", "ready")
		c.ask("running", "process/terminate", `{"processId":"t"}`)
		c.process("end", "t")
		c.ask("again", "process/terminate", `{"processId":"t"}`)
		c.ask("unknown", "process/terminate", `{"processId":"nobody"}`)
		c.start("tty", sh(`echo ready; sleep 60`), `"tty":true`)
		c.seen("tty", "ready\r\n")
		c.call("process/terminate", `{"processId":"tty"}`)
		c.process("terminal", "tty")
		c.start("stubborn", sh(`trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done`), "")
		c.seen("stubborn", "ready")
		c.ask("one that ignores TERM", "process/terminate", `{"processId":"stubborn"}`)
		c.process("killed", "stubborn")
		c.start("kids", sh(`trap '' TERM; sleep 61 & sleep 62 & echo ready; wait; wait`), "")
		c.seen("kids", "ready")
		c.call("process/terminate", `{"processId":"kids"}`)
		c.process("group of children", "kids")
	}},
	{name: "process/two sessions may use one id", compares: wholeReplies, play: func(p *player) {
		a, b := p.open(), p.open()
		a.start("same", sh("echo a; read x"), `"pipeStdin":true`)
		b.ask("other session", "process/start", startParams("same", sh("echo b"), ""))
		b.process("b", "same")
		a.write("same", "1", "x\n")
		a.process("a", "same")
	}},
	{name: "process/concurrent requests 1", compares: wholeReplies, flags: []string{"--concurrent-requests", "1"}, play: playConcurrent},
	{name: "process/concurrent requests 4", compares: wholeReplies, flags: []string{"--concurrent-requests", "4"}, play: playConcurrent},
	{name: "process/files", compares: errorCodes, play: func(p *player) {
		c := p.open()
		c.ask("missing", "fs/getMetadata", `{"path":"$CWD/missing"}`)
		c.ask("below a file", "fs/getMetadata", `{"path":"file:///etc/passwd/x"}`)
		c.ask("bad uri", "fs/getMetadata", `{"path":"/tmp"}`)
		c.ask("no path", "fs/getMetadata", `{}`)
		c.ask("with null sandbox", "fs/getMetadata", `{"path":"$CWD/missing","sandbox":null}`)
	}},
}

// playConcurrent plays what must work with any degree of concurrency: no request depends on an answer that has not arrived.
func playConcurrent(p *player) {
	c := p.open()
	c.start("c", sh("read x; echo $x"), `"pipeStdin":true`)
	first := time.Now()
	poll := c.send("process/read", `{"processId":"c","waitMs":400}`)
	status := c.send("environment/status", `null`)
	p.note("poll", withoutID(c.answer(poll)))
	waited := time.Since(first) >= 350*time.Millisecond
	p.note("poll waited", fmt.Sprint(waited))
	p.note("status", withoutID(c.answer(status)))
	c.ask("write", "process/write", `{"processId":"c","writeId":"1","chunk":"aGkK"}`)
	c.process("end", "c")
	c.ask("terminate", "process/terminate", `{"processId":"c"}`)
}

func playFailedStarts(p *player) {
	c := p.open()
	plain := filepath.Join(suite.work, "not-executable")
	junk := filepath.Join(suite.work, "junk")
	os.WriteFile(plain, []byte("x"), 0o644)
	os.WriteFile(junk, []byte("\x01\x02\x03"), 0o755)
	for _, row := range []struct {
		label string
		argv  []string
		extra string
	}{
		{"missing, absolute", []string{"/no/such/program"}, ""}, {"missing, relative", []string{"./no-such"}, ""},
		{"missing, bare", []string{"no-such-program"}, ""}, {"missing cwd", []string{"/bin/true"}, `"cwd":"$CWD/missing"`},
		{"cwd is a file", []string{"/bin/true"}, `"cwd":"file:///etc/passwd"`}, {"directory", []string{"/usr"}, ""},
		{"not executable", []string{plain}, ""}, {"not a program", []string{junk}, ""},
		{"too long", []string{"/bin/true", strings.Repeat("x", 3<<20)}, ""}, {"empty program", []string{""}, ""},
		{"NUL in argv", []string{"/bin/echo", "a\x00b"}, ""}, {"NUL in the environment", []string{"/bin/true"}, `"env":{"A":"x\u0000y"}`},
	} {
		c.ask(row.label, "process/start", startParams(row.label, row.argv, row.extra))
	}
	c.start("odd names", sh("true"), `"env":{"A=B":"c","":"empty","PATH":"/bin"}`)
	c.process("odd environment names", "odd names")
}

// ended is the summary of a silent terminal process that a signal killed.
func ended(label string, code int) difference {
	return difference{label, "128+n with a terminal too",
		fmt.Sprintf(`{"exitCode":%d,"numbers":"sound","sandboxDenied":false}`, code)}
}

// onPath makes a directory with one program in it.
func onPath(p *player) string {
	dir := filepath.Join(suite.work, "onpath")
	os.MkdirAll(dir, 0o755)
	if err := os.WriteFile(filepath.Join(dir, "only-here"), []byte("#!/bin/sh\necho here\n"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	return dir
}
