//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// PA01, PA02, PA21, PA25.
var appHandshakes = []appExchange{
	{name: "handshake", play: func(p *appPlayer) {
		p.ask("before", "process/spawn", p.params("a", nil, "true"))
		p.ask("decoded first", "process/spawn", j{})
		p.ask("without clientInfo", "initialize", j{})
		p.ask("a bad name", "initialize", j{"clientInfo": j{"name": "bad\nname", "version": "1"}})
		m := p.Call("initialize", j{"clientInfo": j{"name": "interop", "title": nil, "version": "1"}, "capabilities": j{"experimentalApi": true}})
		var hello j
		if err := json.Unmarshal(m.Result, &hello); err != nil {
			p.t.Fatalf("%s: %v", m.Raw, err)
		}
		if agent, ok := hello["userAgent"].(string); !ok || !strings.HasPrefix(agent, "interop/") || !strings.HasSuffix(agent, "(interop; 1)") {
			p.t.Errorf("user agent %v", hello["userAgent"])
		}
		delete(hello, "userAgent")
		p.note("hello", hello)
		p.ask("again", "initialize", j{"clientInfo": j{"name": "interop", "version": "1"}})
		p.ask("again, badly", "initialize", j{})
		p.run("without initialized", nil, "printf x")
		m = p.Call("nope/foo", j{})
		text, _, _ := strings.Cut(m.Error.Message, ", expected one of `initialize`, ")
		p.note("unknown method", fmt.Sprint(m.Error.Code, " ", text))
	}},
	{name: "experimental gate", play: func(p *appPlayer) {
		p.helloWith(nil)
		p.ask("spawn", "process/spawn", p.params("a", nil, "true"))
		p.ask("write", "process/writeStdin", j{"processHandle": "a", "closeStdin": true})
		p.ask("resize", "process/resizePty", j{"processHandle": "a", "size": j{"rows": 1, "cols": 1}})
		p.ask("kill", "process/kill", j{"processHandle": "a"})
	}},
	{name: "pipelined handshake", play: func(p *appPlayer) {
		hello := p.Ask("initialize", j{"clientInfo": j{"name": "interop", "version": "1"}, "capabilities": j{"experimentalApi": true}})
		spawn := p.Ask("process/spawn", p.params("a", nil, "true"))
		if m := p.Answer(hello); m.Error != nil {
			p.t.Error(m.Error)
		}
		p.answer("spawn", p.Answer(spawn))
		p.exit("a")
	}},
	{name: "opted out", play: func(p *appPlayer) {
		p.helloWith(j{"experimentalApi": true, "optOutNotificationMethods": []string{"process/outputDelta"}})
		p.run("silent", j{"streamStdoutStderr": true, "outputBytesCap": 3}, "printf abcdef; exit 3")
	}},
	{name: "opted out of the end", play: func(p *appPlayer) {
		p.helloWith(j{"experimentalApi": true, "optOutNotificationMethods": []string{"process/exited"}})
		p.sh("quiet", nil, "printf abcdef")
		p.forgotten("quiet")
		_, err := p.AwaitFor(0, p.about("process/exited", "quiet"))
		p.note("no end", fmt.Sprint(err != nil))
	}},
	{name: "input without answer", play: func(p *appPlayer) {
		p.hello()
		for _, junk := range []string{
			`not json`, `[]`, `7`, `null`, `{}`, `{"id":5}`, `{"id":5,"result":{}}`, `{"id":5,"method":7}`, ``, `  `,
			`{"id":null,"method":"process/kill","params":{"processHandle":"a"}}`,
			`{"id":1.5,"method":"process/kill","params":{"processHandle":"a"}}`,
			`{"method":"process/kill","params":{"processHandle":"a"}}`,
		} {
			p.Send(junk)
		}
		p.Send(`{"jsonrpc":"2.0","id":"text","method":"process/kill","params":{"processHandle":"no\"q\né"}}`)
		m := p.Await("an answer", func(m tethertest.Message) bool { return m.Method == "" })
		p.answer("the first answer, to "+string(m.ID), m)
	}},
	{name: "no local environment", env: []string{"CODEX_EXEC_SERVER_URL=none"}, play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn", "process/spawn", p.params("", j{"command": []string{}}))
		p.ask("kill", "process/kill", j{"processHandle": "z"})
	}},
	{name: "end of input", play: func(p *appPlayer) {
		p.hello()
		p.sh("pipe", j{"timeoutMs": nil}, "echo $$ >pipe; exec sleep 100")
		p.sh("tty", j{"timeoutMs": nil, "tty": true}, "echo $$ >tty; exec sleep 100")
		pids := []int{p.pid("pipe"), p.pid("tty")}
		p.note("exit status", fmt.Sprint(p.end()))
		for _, pid := range pids {
			p.note("process is gone", fmt.Sprint(p.gone(pid)))
		}
	}},
}

// forgotten waits until a handle is unknown and notes the answer. The reference reports the end first and forgets the
// handle afterwards.
func (p *appPlayer) forgotten(handle string) {
	p.t.Helper()
	var m tethertest.Message
	tethertest.Eventually(p.t, func() error {
		if m = p.Call("process/kill", j{"processHandle": handle}); m.Error == nil || !strings.HasPrefix(m.Error.Message, "no active") {
			return fmt.Errorf("still there: %s", m.Raw)
		}
		return nil
	})
	p.answer("unknown "+handle, m)
}

// pid waits for the process number that a script writes into a file.
func (p *appPlayer) pid(file string) (pid int) {
	p.t.Helper()
	tethertest.Eventually(p.t, func() error {
		text, err := os.ReadFile(filepath.Join(p.dir, file))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	})
	return pid
}

// gone reports whether a process ends.
func (p *appPlayer) gone(pid int) bool { return p.goneWithin(timeLimit, pid) }

func (p *appPlayer) goneWithin(limit time.Duration, pid int) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}

// endsAtOnce reports whether a script with more output than its cap of 3 bytes ends in less
// than the 2 s for which open output is waited for. A busy machine has several attempts.
func (p *appPlayer) endsAtOnce(script string) bool {
	p.t.Helper()
	for i := range 5 {
		began, handle := time.Now(), fmt.Sprint("at once ", i)
		p.Must("process/spawn", p.params(handle, j{"outputBytesCap": 3}, "sh", "-c", script), nil)
		p.Await("the end of "+handle, p.about("process/exited", handle))
		if time.Since(began) < 1900*time.Millisecond {
			return true
		}
		if p.who == ref { // the reference always waits
			break
		}
	}
	return false
}

// Exchanges in which both products behave alike.
var appExchanges = []appExchange{
	{name: "released by a file", play: func(p *appPlayer) {
		p.hello()
		p.sh("one", nil, "echo probe >probe; while ! test -e release; do sleep 0.02; done; printf process-out; printf process-err >&2")
		tethertest.Eventually(p.t, func() error { _, err := os.Stat(filepath.Join(p.dir, "probe")); return err })
		_, err := p.AwaitFor(0, p.about("process/exited", "one"))
		p.note("answered before the end", fmt.Sprint(err != nil))
		if err := os.WriteFile(filepath.Join(p.dir, "release"), nil, 0o600); err != nil {
			p.t.Fatal(err)
		}
		p.exit("one")
	}},
	{name: "three of five", play: func(p *appPlayer) {
		p.hello()
		p.run("two", j{"outputBytesCap": 3}, "printf abcde; printf 12345 >&2")
	}},
	{name: "killed sleep", play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn", "process/spawn", p.params("three", nil, "sleep", "30"))
		p.ask("kill", "process/kill", j{"processHandle": "three"})
		p.exit("three")
		p.forgotten("three")
	}},
	{name: "buffered run", play: func(p *appPlayer) {
		p.hello()
		p.run("a", nil, "sleep 0.3; printf out; printf err >&2; exit 3")
		p.run("term", nil, "kill -TERM $$") // another handle: the reference may not have forgotten the first
		p.run("kill", nil, "kill -KILL $$")
	}},
	{name: "duplicate, then reuse", play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn", "process/spawn", p.params("d", nil, "sleep", "3"))
		p.ask("duplicate", "process/spawn", p.params("d", nil, "true"))
		p.exit("d")
	}},
	{name: "streaming", play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn", "process/spawn", p.params("c", j{"streamStdin": true, "streamStdoutStderr": true}, "cat"))
		p.ask("write", "process/writeStdin", j{"processHandle": "c", "deltaBase64": b64("hello\n")})
		p.until("c", "hello\n")
		p.ask("write and close", "process/writeStdin", j{"processHandle": "c", "deltaBase64": b64("bye\n"), "closeStdin": true})
		p.exit("c")
	}},
	{name: "streaming with a cap of 4", play: func(p *appPlayer) {
		p.hello()
		p.run("sc4", j{"outputBytesCap": 4, "streamStdoutStderr": true}, "printf abc; sleep 0.2; printf de; sleep 0.2; printf fg; printf e >&2")
	}},
	{name: "second kill", play: func(p *appPlayer) {
		p.hello()
		p.sh("k", nil, "trap '' TERM; printf hi; echo $$ >k; sleep 30")
		p.pid("k")
		p.ask("kill", "process/kill", j{"processHandle": "k"})
		p.exit("k")
		p.forgotten("k")
	}},
	{name: "open output", play: func(p *appPlayer) {
		p.hello()
		p.sh("dr", nil, "(sleep 1; printf late1; sleep 3; printf late2) & printf first; exit 5")
		tethertest.Eventually(p.t, func() error { // a kill would reach what holds the output open
			if m := p.Call("process/writeStdin", j{"processHandle": "dr", "closeStdin": true}); m.Error == nil || !strings.Contains(m.Error.Message, "no longer running") {
				return fmt.Errorf("it still runs: %s", m.Raw)
			}
			return nil
		})
		p.ask("kill while draining", "process/kill", j{"processHandle": "dr"})
		p.ask("write while draining", "process/writeStdin", j{"processHandle": "dr", "closeStdin": true})
		p.ask("duplicate while draining", "process/spawn", p.params("dr", nil, "true"))
		p.exit("dr")
	}},
	{name: "timeouts", play: func(p *appPlayer) {
		p.hello()
		began := time.Now()
		p.sh("default", nil, "exec sleep 100")
		p.sh("default tty", j{"tty": true}, "exec sleep 100")
		p.sh("none", j{"timeoutMs": nil}, "sleep 11")
		p.run("1500", j{"timeoutMs": 1500}, "printf before; sleep 100")
		p.run("1500 tty", j{"timeoutMs": 1500, "tty": true}, "printf before; sleep 100")
		p.ask("spawn 0", "process/spawn", p.params("0", j{"timeoutMs": 0}, "sleep", "5"))
		p.exit("0")
		p.exit("default")
		took := time.Since(began)
		p.note("ten seconds", fmt.Sprint(took >= 10*time.Second && took < 50*time.Second)) // the command would take 100
		p.exit("default tty")
		p.exit("none")
	}},
	{name: "environment", env: []string{"PROBE_A=1", "PROBE_B=2"}, play: func(p *appPlayer) {
		p.hello()
		p.run("e1", j{"env": j{"PROBE_A": nil, "PROBE_B": "over", "PROBE_C": "new", "node_repl_auth_token": "lower", "OPENAI_IDENTITY_TOKEN_FILE": "f"}},
			"env | grep -iE 'PROBE|NODE_REPL|OPENAI|CODEX_EXEC|TOKEN|SECRET' | grep -v ^PATH= | sort")
		p.ask("PATH", "process/spawn", p.params("e2", j{"env": j{"PATH": "/nonexistent"}}, "true"))
		p.ask("no PATH", "process/spawn", p.params("e3", j{"env": j{"PATH": nil}}, "true"))
		p.exit("e3")
		p.run("e4", j{"cwd": p.dir + "/a/../."}, "pwd")
	}},
	{name: "caps", play: func(p *appPlayer) {
		p.hello()
		zeroes := "head -c %d /dev/zero | tr '\\0' x"
		for _, streamed := range []bool{false, true} {
			run := func(handle string, options j, script string) {
				options["streamStdoutStderr"] = streamed
				p.run(fmt.Sprintf("%s, streamed %t", handle, streamed), options, script)
			}
			run("default", j{}, fmt.Sprintf(zeroes, 1_500_000))
			run("default, exactly", j{}, fmt.Sprintf(zeroes, 1<<20))
			run("none", j{"outputBytesCap": nil}, fmt.Sprintf(zeroes, 1_500_000))
			run("0", j{"outputBytesCap": 0}, "printf abc; printf de >&2")
			run("0 of nothing", j{"outputBytesCap": 0}, "exit 0")
			run("3", j{"outputBytesCap": 3}, "printf abc")
			run("4", j{"outputBytesCap": 4}, "printf abc")
			run("10", j{"outputBytesCap": 10}, "head -c 5000000 /dev/zero; exit 9")
		}
	}},
	{name: "bytes", play: func(p *appPlayer) {
		p.hello()
		p.run("streamed", j{"streamStdoutStderr": true}, `printf 'ok\377\376bad\000\n'`)
		p.run("text", nil, `printf 'é€😀\001\000\t\n"\\'`)
	}},
	{name: "no input", play: func(p *appPlayer) {
		p.hello()
		p.run("i1", nil, "cat; echo eof=$?; readlink /proc/self/fd/0")
	}},
	{name: "session and group", play: func(p *appPlayer) {
		p.hello()
		p.run("pipe", nil, `set -- $(cut -d' ' -f5,6,7 /proc/$$/stat); test $1 = $$ && test $2 = $$ && echo tty $3`)
		p.run("tty", j{"tty": true}, `set -- $(cut -d' ' -f5,6 /proc/$$/stat); test $1 = $$ && test $2 = $$ && stty size </dev/tty`)
		p.run("sized", j{"tty": true, "size": j{"rows": 10, "cols": 20}}, "stty size")
	}},
	{name: "terminal", play: func(p *appPlayer) {
		p.hello()
		p.sh("pr", j{"tty": true, "timeoutMs": nil}, "trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.05; done")
		p.until("pr", "ready\r\n")
		p.ask("resize", "process/resizePty", j{"processHandle": "pr", "size": j{"rows": 48, "cols": 160}})
		p.exit("pr")
		p.ask("spawn cat", "process/spawn", p.params("cat", j{"tty": true}, "cat"))
		p.ask("write", "process/writeStdin", j{"processHandle": "cat", "deltaBase64": b64("abc")})
		p.until("cat", "abc")
		p.ask("close", "process/writeStdin", j{"processHandle": "cat", "closeStdin": true})
		p.exit("cat")
		p.sh("raw", j{"tty": true}, "stty raw -echo; printf ready; head -c 2 | od -An -c")
		p.until("raw", "ready")
		p.ask("close raw", "process/writeStdin", j{"processHandle": "raw", "closeStdin": true})
		p.exit("raw")
	}},
	{name: "pipelined", play: func(p *appPlayer) {
		p.hello()
		ids := []int64{p.Ask("process/spawn", p.params("p", j{"streamStdin": true}, "cat"))}
		for _, text := range []string{"a", "b", "c", "d", "e"} {
			ids = append(ids, p.Ask("process/writeStdin", j{"processHandle": "p", "deltaBase64": b64(text)}))
		}
		ids = append(ids, p.Ask("process/spawn", p.params("p", nil, "true")))
		ids = append(ids, p.Ask("process/writeStdin", j{"processHandle": "p", "closeStdin": true}))
		for _, id := range ids {
			p.answer("pipelined", p.Answer(id))
		}
		p.exit("p")
	}},
	{name: "many at once", play: func(p *appPlayer) {
		p.hello()
		for i := range 100 {
			p.Ask("process/spawn", p.params(fmt.Sprint(i), j{"timeoutMs": nil}, "echo", fmt.Sprint(i)))
		}
		for i := range 100 {
			p.exit(fmt.Sprint(i))
		}
	}},
}

// PA05, PA12, PA14: refused requests, and the order of the checks.
var appRefusals = []appExchange{
	{name: "refused spawns", play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn d", "process/spawn", p.params("d", nil, "sleep", "100"))
		file := filepath.Join(p.dir, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			p.t.Fatal(err)
		}
		bad := j{"rows": 0, "cols": 1}
		for i, options := range []j{
			{"command": []string{}, "processHandle": "", "timeoutMs": -1}, {"processHandle": "", "size": bad}, {"size": bad, "timeoutMs": -1},
			{"tty": true, "size": bad, "timeoutMs": -1}, {"tty": true, "size": bad, "processHandle": "d"},
			{"processHandle": "d", "command": []string{"nonexistent-prog"}}, {"command": []string{"nonexistent-prog"}},
			{"command": []string{"nonexistent-prog"}, "tty": true, "env": j{"PATH": "/bin"}},
			{"command": []string{"/nonexistent/prog"}, "tty": true}, {"command": []string{""}}, {"command": []string{""}, "tty": true},
			{"cwd": "/nonexistent-dir"}, {"cwd": file}, {"command": []string{file}}, {"command": []string{file}, "tty": true},
			{"command": []string{"a\x00b"}}, {"command": []string{"true", "a\x00b"}, "tty": true}, {"env": j{"A": "a\x00b"}},
			{"cwd": "relative"}, {"cwd": ""}, {"cwd": "~"}, {"cwd": "~/x"}, {"cwd": 5}, {"command": "true"}, {"command": []int{1}}, {"processHandle": 5},
			{"tty": nil}, {"streamStdin": nil}, {"timeoutMs": 1.5}, {"timeoutMs": "1"}, {"outputBytesCap": -1}, {"outputBytesCap": "1"},
			{"tty": true, "size": j{"rows": 70000, "cols": 1}}, {"tty": true, "size": j{"rows": -1, "cols": 1}},
			{"tty": true, "size": j{"rows": 1}}, {"tty": true, "size": 5}, {"env": j{"A": 5}}, {"env": []int{}},
		} {
			p.ask(fmt.Sprint("refused ", i), "process/spawn", p.params("new", options, "true"))
		}
		for _, raw := range []string{`{"id":900,"method":"process/spawn"}`, `{"id":900,"method":"process/spawn","params":null}`, `{"id":900,"method":"process/spawn","params":"x"}`} {
			p.Send(raw)
			p.answer(raw, p.Answer(900))
		}
		for _, missing := range []string{"command", "processHandle", "cwd"} {
			params := p.params("x", nil, "true")
			delete(params, missing)
			p.ask("without "+missing, "process/spawn", params)
		}
		p.ask("null and unknown", "process/spawn", p.params("new", j{"env": nil, "size": nil, "sandboxPolicy": "x"}, "true"))
		p.exit("new")
	}},
	{name: "refused writes", play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn w", "process/spawn", p.params("w", j{"timeoutMs": nil}, "sleep", "100"))
		p.ask("spawn in", "process/spawn", p.params("in", j{"timeoutMs": nil, "streamStdin": true}, "sleep", "100"))
		for i, params := range []j{
			{"processHandle": "nobody"}, {"processHandle": "nobody", "closeStdin": false, "deltaBase64": nil},
			{"processHandle": "nobody", "deltaBase64": "!!"}, {"processHandle": "nobody", "deltaBase64": "QQ"}, {"processHandle": "nobody", "deltaBase64": "QR=="},
			{"processHandle": "nobody", "deltaBase64": "-_=="}, {"processHandle": "nobody", "deltaBase64": "QQ==\n"}, {"processHandle": "nobody", "deltaBase64": "Q"},
			{"processHandle": "nobody", "deltaBase64": "eA=="}, {"processHandle": "w", "deltaBase64": "eA=="}, {"processHandle": "w", "deltaBase64": ""},
			{"processHandle": "w", "closeStdin": true}, {"processHandle": "in", "deltaBase64": ""}, {"processHandle": "in", "deltaBase64": "eA==", "closeStdin": true},
			{"processHandle": "in", "closeStdin": true}, {"processHandle": "in", "deltaBase64": ""}, {"processHandle": "in", "deltaBase64": "eA=="},
			{"processHandle": "in", "deltaBase64": "eA==", "closeStdin": true}, {"processHandle": "in", "closeStdin": nil}, {"processHandle": "in", "deltaBase64": 5}, {},
		} {
			p.ask(fmt.Sprint("write ", i), "process/writeStdin", params)
		}
	}},
	{name: "refused sizes", play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn", "process/spawn", p.params("pipe", j{"timeoutMs": nil}, "sleep", "100"))
		for i, params := range []j{
			{"processHandle": "x", "size": j{"rows": 0, "cols": 1}}, {"processHandle": "x", "size": j{"rows": 1, "cols": 1}},
			{"processHandle": "x", "size": nil}, {"processHandle": "x"}, {"processHandle": "x", "size": j{"rows": 1.5, "cols": 1}},
			{"processHandle": "pipe", "size": j{"rows": 1, "cols": 1}},
		} {
			p.ask(fmt.Sprint("resize ", i), "process/resizePty", params)
		}
	}},
}

// Exchanges in which tether differs on purpose; docs/process-api.md lists them.
var appDifferences = []appExchange{
	{name: "signals at a terminal", play: func(p *appPlayer) {
		p.hello()
		p.run("term", j{"tty": true}, "kill -TERM $$")
	}, differs: []difference{{label: "exit term", reason: "the cause is visible, as with pipes",
		want: `{"exitCode":143,"outputDrainTimedOut":false,"processHandle":"term","stderr":"","stderrCapReached":false,"stdout":"","stdoutCapReached":false}`}}},
	{name: "missing directory at a terminal", play: func(p *appPlayer) {
		p.hello()
		p.ask("spawn", "process/spawn", p.params("x", j{"tty": true, "cwd": "/nonexistent-dir"}, "true"))
	}, differs: []difference{{label: "spawn", reason: "commands must not act in the wrong place",
		want: `-32603 failed to spawn process: No such file or directory (os error 2): working directory "/nonexistent-dir"`}}},
	{name: "bytes that are no text", play: func(p *appPlayer) {
		p.hello()
		p.run("invalid", nil, `printf 'ok\377\376bad'`)
		p.run("cut", j{"outputBytesCap": 3}, `printf 'éé'`)
	}, differs: []difference{
		{label: "exit invalid", reason: "no guessing of encodings",
			want: `{"exitCode":0,"outputDrainTimedOut":false,"processHandle":"invalid","stderr":"","stderrCapReached":false,"stdout":"ok��bad","stdoutCapReached":false}`},
		{label: "exit cut", reason: "what is before the cut stays as it is",
			want: `{"exitCode":0,"outputDrainTimedOut":false,"processHandle":"cut","stderr":"","stderrCapReached":false,"stdout":"é","stdoutCapReached":true}`}}},
	{name: "a session of its own", asRoot: true, play: func(p *appPlayer) {
		p.hello()
		p.sh("k", nil, "setsid sh -c 'echo $$ >session; exec sleep 100' >/dev/null 2>&1 & wait")
		escaped := p.pid("session")
		p.ask("kill", "process/kill", j{"processHandle": "k"})
		p.exit("k")
		limit := timeLimit
		if p.who == ref {
			limit = time.Second // the command does not end
		}
		dead := p.goneWithin(limit, escaped)
		p.note("all are dead", fmt.Sprint(dead))
		if !dead {
			syscall.Kill(escaped, syscall.SIGKILL)
		}
	}, differs: []difference{{label: "all are dead", reason: "a kill reaches all that the command started", want: "true"}}},
	{name: "output at its cap, held open", play: func(p *appPlayer) {
		p.hello()
		p.run("h", j{"outputBytesCap": 3}, "sleep 30 2>/dev/null & printf abcdef; exit 0")
		p.note("at once", fmt.Sprint(p.endsAtOnce("sleep 30 2>/dev/null & printf abcdef; exit 0")))
	}, differs: []difference{{label: "at once", reason: "no output is left to wait for", want: "true"}}},
	{name: "blocked input", play: func(p *appPlayer) {
		p.hello()
		sleep, limit := "60", timeLimit
		if p.who == ref {
			sleep, limit = "6", 3*time.Second // the kill waits for the end
		}
		p.ask("spawn", "process/spawn", p.params("b", j{"streamStdin": true, "timeoutMs": nil}, "sleep", sleep))
		chunk := b64(strings.Repeat("x", 64<<10))
		for range 160 {
			p.Ask("process/writeStdin", j{"processHandle": "b", "deltaBase64": chunk})
		}
		kill := fmt.Sprint(p.Ask("process/kill", j{"processHandle": "b"}))
		m, err := p.AwaitFor(limit, func(m tethertest.Message) bool { return m.Method == "" && string(m.ID) == kill })
		if err != nil {
			p.note("kill", "no answer")
		} else {
			p.answer("kill", m)
		}
		p.exit("b")
	}, differs: []difference{
		{label: "kill", reason: "a kill waits for nothing", want: "{}"},
		{label: "exit b", reason: "and kills",
			want: `{"exitCode":137,"outputDrainTimedOut":false,"processHandle":"b","stderr":"","stderrCapReached":false,"stdout":"","stdoutCapReached":false}`}}},
}
