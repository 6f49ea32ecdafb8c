//go:build interop

package interop_test

import (
	"fmt"
	"os/exec"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

var startupExchanges = []exchange{
	{name: "startup/listen errors", compares: errorCodes, play: func(p *player) {
		for _, url := range []string{"ws://127.0.0.1", "ws://127.0.0.1:0/", "ws://:0", "ws://127.0.0.1:99999",
			"ws://127.0.0.1:0?x", "http://127.0.0.1:0", "wss://127.0.0.1:0", "", "STDIO", "stdio:", "WS://127.0.0.1:0"} {
			p.note("--listen "+url, runToEnd(p.t, p.who, nil, "--listen", url))
		}
	}},
	{name: "startup/listen error texts", compares: wholeReplies, play: func(p *player) {
		for _, url := range []string{"ws://127.0.0.1", "ws://:0", "ws://127.0.0.1:99999"} {
			p.note("--listen "+url, runToEnd(p.t, p.who, nil, "--listen", url))
		}
	}},
	{name: "startup/command line errors", compares: errorCodes, play: func(p *player) {
		for _, args := range []string{"--concurrent-requests 0", "--concurrent-requests -1", "--concurrent-requests x",
			"--concurrent-requests 99999999999999999999", "--no-such-flag", "--listen", "--ws-auth no-such-mode",
			"--ws-max-clock-skew-seconds -1 --ws-auth signed-bearer-token", "--ws-max-clock-skew-seconds x"} {
			p.note(args, runToEnd(p.t, p.who, nil, strings.Fields(args)...))
		}
	}},
	{name: "startup/auth errors", compares: wholeReplies, play: playAuthErrors},
	{name: "startup/signals", compares: wholeReplies, play: func(p *player) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			p.signalled("WebSocket, "+sig.String(), sig)
		}
	}},
}

func playAuthErrors(p *player) {
	digest := capabilityDigest()
	for _, args := range [][]string{
		{"--ws-auth", "capability-token"},
		{"--ws-auth", "capability-token", "--ws-token-file", "token", "--ws-token-sha256", digest},
		{"--ws-auth", "capability-token", "--ws-token-sha256", "abc"},
		{"--ws-auth", "capability-token", "--ws-token-sha256", strings.Repeat("z", 64)},
		{"--ws-auth", "capability-token", "--ws-token-file", "empty"},
		{"--ws-auth", "capability-token", "--ws-token-sha256", digest, "--ws-issuer", "me"},
		{"--ws-auth", "capability-token", "--ws-token-sha256", digest, "--ws-max-clock-skew-seconds", "5"},
		{"--ws-auth", "signed-bearer-token"},
		{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", "empty"},
		{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", "short"},
		{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", "secret", "--ws-token-sha256", digest},
		{"--ws-token-sha256", digest}, {"--ws-issuer", "me"}, {"--ws-shared-secret-file", "secret"},
		{"--listen", "stdio", "--ws-auth", "capability-token", "--ws-token-sha256", digest},
	} {
		p.note(strings.Join(args, " "), runToEnd(p.t, p.who, nil, args...))
	}
	missing := runToEnd(p.t, p.who, nil, "--ws-auth", "capability-token", "--ws-token-file", "missing")
	missing.Stderr, _, _ = strings.Cut(missing.Stderr, "missing: ") // the rest is the system's text
	p.note("missing file", missing)
}

// signalled records how a server with a running child ends on a signal.
func (p *player) signalled(label string, sig syscall.Signal) {
	own := *p
	own.log, own.conns = nil, nil
	own.server = startServer(p.t, p.who)
	c := own.open()
	defer c.Close()
	c.start("child", sh("echo $$; exec sleep 60"), "")
	c.seen("child", "\n")
	c.mu.Lock()
	pid := strings.TrimSpace(outputOf(c.events["child"], ""))
	c.mu.Unlock()
	begin := time.Now()
	own.server.cmd.Process.Signal(sig)
	select {
	case <-own.server.waited:
	case <-time.After(timeLimit):
		own.server.stop()
	}
	p.note(label+": status", fmt.Sprint(own.server.cmd.ProcessState))
	p.note(label+": in time", fmt.Sprint(time.Since(begin) < timeLimit))
	gone := false
	for deadline := time.Now().Add(timeLimit); !gone && time.Now().Before(deadline); {
		gone = exec.Command("kill", "-0", pid).Run() != nil
	}
	p.note(label+": child gone", fmt.Sprint(gone))
}

var stdioExchanges = []exchange{
	{name: "stdio/conversation", compares: wholeReplies, play: func(p *player) {
		for _, listen := range []string{"stdio", "stdio://"} {
			p.stdio(listen, []string{
				`{"id":1,"method":"initialize","params":` + helloParams + `}`, `{"method":"initialized"}`,
				``, `   `, `{"id":2,"method":"environment/status"}` + "\r", `garbage`, `[]`,
				`{"id":3,"method":"process/start","params":` + expand(startParams("p", sh("echo hi"), "")) + `}`,
				`{"id":4,"method":"no/such"}`,
			}, 6)
		}
	}},
	{name: "stdio/resume", compares: wholeReplies, play: func(p *player) {
		p.stdio("stdio", []string{`{"id":1,"method":"initialize","params":{"clientName":"x","resumeSessionId":"` + unknownSession + `"}}`}, 1)
	}},
	{name: "stdio/end of input", compares: wholeReplies, play: func(p *player) {
		p.note("at once", runToEnd(p.t, p.who, strings.NewReader(""), "--listen", "stdio"))
		p.note("not UTF-8", runToEnd(p.t, p.who, strings.NewReader("{\"id\":\"\xff\"}\n"), "--listen", "stdio"))
	}},
}

// stdio sends lines, waits for the given number of answers (notifications do not
// count), ends the input and records answers and exit status.
func (p *player) stdio(listen string, lines []string, answers int) {
	p.t.Helper()
	cmd := command(p.t, p.who, "--listen", listen)
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	watchdog := time.AfterFunc(timeLimit, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	c := tethertest.NewLinesConn(out, in, nil)
	c.Send(strings.Join(lines, "\n"))
	var seen []string
	for len(seen) < answers {
		m, err := c.Take(p.t.Context(), func(m tethertest.Message) bool { return m.Method == "" })
		if err != nil {
			break
		}
		seen = append(seen, withID(string(m.Raw)))
	}
	sort.Strings(seen) // answers may overtake each other
	for _, line := range seen {
		p.note(listen+" answer", line)
	}
	in.Close()
	<-c.Ended() // the program has closed its output
	cmd.Wait()
	p.note(listen+" status", fmt.Sprint(cmd.ProcessState))
}
