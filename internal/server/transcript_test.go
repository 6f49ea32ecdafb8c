//go:build unix

package server_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

var update = flag.Bool("update", false, "rewrite the transcripts with what the server says now")

// The transcripts in testdata/transcripts are played line by line:
//
//	# text          a comment
//	> MESSAGE       is sent; <session> and <public> stand for the ids of the session
//	< MESSAGE       is expected, with its volatile parts replaced as volatile says
//	!               the connection is cut
//
// B> and B< are the same on a second connection, and so on. Answers and
// notifications are two sequences: which of them comes first is not compared.
// A new line is written as "< answer" or "< event" and filled in by -update.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := player{t: t, url: tethertest.StartServer(t, server.Config{Version: "1.0"}).URL, conns: map[string]*tethertest.Client{}}
			var played []string
			for line := range strings.Lines(string(text)) {
				played = append(played, p.play(strings.TrimSuffix(line, "\n")))
			}
			if got := strings.Join(played, "\n") + "\n"; *update && got != string(text) {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Every method needs a transcript.
func TestEveryMethodHasATranscript(t *testing.T) {
	files, _ := filepath.Glob("testdata/transcripts/*.txt")
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	methods := append(slices.Collect(maps.Keys(requests)), wire.MethodInitialized, wire.MethodAck,
		wire.MethodEnvironmentInfo, wire.MethodEnvironmentStatus, wire.MethodSessionList, wire.MethodSessionEnd)
	for _, method := range methods {
		if !strings.Contains(all.String(), `"method":"`+method+`"`) {
			t.Errorf("%s is in no transcript", method)
		}
	}
}

type player struct {
	t               *testing.T
	url             string
	conns           map[string]*tethertest.Client
	session, public string
}

var transcriptLine = regexp.MustCompile(`^([A-Z]?)([><!]) ?(.*)$`)

// play plays a line and returns it as it should be.
func (p *player) play(line string) string {
	p.t.Helper()
	part := transcriptLine.FindStringSubmatch(line)
	if part == nil {
		return line
	}
	name, what, text := part[1], part[2], part[3]
	c := p.conns[name]
	if c == nil {
		c = tethertest.Dial(p.t, p.url)
		p.conns[name] = c
	}
	switch what {
	case ">":
		c.Send(strings.NewReplacer("<session>", p.session, "<public>", p.public).Replace(text))
	case "!":
		c.Close()
		delete(p.conns, name)
	case "<":
		answer := !strings.HasPrefix(text, `{"method"`) && text != "event"
		m := c.Await(line, func(m tethertest.Message) bool { return (m.Method == "") == answer })
		got := p.normalise(string(m.Raw))
		if got != text && !*update {
			p.t.Errorf("\n got %s\nwant %s", got, text)
		}
		return name + "< " + got
	}
	return line
}

// volatile parts differ from run to run, or from machine to machine.
var volatile = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`"(pid|heldBytes|unsentBytes|sentSeq|startedAtMs|createdAtMs|timeMs|expiresInMs)":\d+`), `"$1":<number>`},
	{regexp.MustCompile(`"tetherUsage":\{[^{}]*\}`), `"tetherUsage":<usage>`},
	{regexp.MustCompile(`,"cpuMs":\d+,"memoryBytes":\d+`), ``},     // not known on every machine
	{regexp.MustCompile(`,"stateDetail":\{[^}]*\}(\}[],])`), `$1`}, // in a list; the state may differ or be left out
	{regexp.MustCompile(`"stateDetail":\{.*\}(\}\})$`), `"stateDetail":<detail>$1`},
	{regexp.MustCompile(`"environmentInfo":\{.*\},"tether"`), `"environmentInfo":<info>,"tether"`},
	{regexp.MustCompile(`exec-server websocket 127.0.0.1:\d+`), `exec-server websocket <address>`},
	{regexp.MustCompile(`"shell":\{[^}]*\}`), `"shell":<shell>`},
	{regexp.MustCompile(`"(providerId|userHomeDir|tempDir)":("[^"]*"|null)`), `"$1":<$1>`},
	{regexp.MustCompile(`("userHomeDir":<userHomeDir>.*"temporaryDirectories":)\[[^]]*\]`), `$1<directories>`},
	{regexp.MustCompile(`("executorVersion":.*"cwd":)"[^"]*"(,"userHomeDir")`), `$1<cwd>$2`},
}

var idsInAnswer = regexp.MustCompile(`"sessionId":"([0-9a-f-]{36})".*"publicId":"([0-9a-f]{12})"`)

func (p *player) normalise(raw string) string {
	if ids := idsInAnswer.FindStringSubmatch(raw); ids != nil && p.session == "" {
		p.session, p.public = ids[1], ids[2]
	}
	if p.session != "" {
		raw = strings.NewReplacer(p.session, "<session>", p.public, "<public>").Replace(raw)
	}
	for _, v := range volatile {
		raw = v.pattern.ReplaceAllString(raw, v.replacement)
	}
	return otherID.ReplaceAllString(raw, `"$1":"<other>"`)
}

// otherID matches the ids of sessions other than the transcript's first.
var otherID = regexp.MustCompile(`"(sessionId|publicId)":"[0-9a-f-]{12,36}"`)
