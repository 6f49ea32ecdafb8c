package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/host"
)

// runGoAgent carries out commands with the Go client until the input ends.
func runGoAgent(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &goAgent{ctx: ctx, processes: map[string]*goProcess{}, forwards: map[string]*goForward{}}
	var tasks sync.WaitGroup
	var writing sync.Mutex
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		tasks.Go(func() {
			got := answer{ID: c.ID}
			value, err := g.carryOut(c)
			if err != nil {
				got.Error, got.Message = errorName(err), err.Error()
			} else {
				got.Result, _ = json.Marshal(value) // such values can be encoded
			}
			text, _ := json.Marshal(got)
			writing.Lock()
			defer writing.Unlock()
			out.Write(append(text, '\n'))
		})
	}
	cancel()
	tasks.Wait()
	for _, f := range g.forwards {
		f.stop()
	}
	if g.client != nil {
		g.client.Close()
	}
	return lines.Err()
}

// errorNames are the names of errors in answers; the first that fits.
var errorNames = []struct {
	err  error
	name string
}{
	{client.ErrTakenOver, "takenOver"}, {client.ErrServerStopped, "serverStopped"}, {client.ErrSessionLost, "sessionLost"},
	{client.ErrAmbiguous, "ambiguous"}, {client.ErrStdinClosed, "stdinClosed"}, {client.ErrUnknownProcess, "unknownProcess"},
	{fs.ErrNotExist, "notFound"}, {client.ErrGap, "gap"}, {client.ErrClosed, "closed"},
}

func errorName(err error) string {
	for _, row := range errorNames {
		if errors.Is(err, row.err) {
			return row.name
		}
	}
	if _, ok := errors.AsType[*client.ServerError](err); ok {
		return "refused"
	}
	if _, ok := errors.AsType[errPort](err); ok {
		return "port"
	}
	return "other"
}

// A command is a line of the input.
type command struct {
	ID        int
	Do        string
	URL       string
	TTLMs     int64
	SilenceMs int64
	Process   string
	Argv      []string
	Cwd       string
	TTY       bool
	Stdin     bool
	Rows      uint16
	Cols      uint16
	Bytes     *int64
	Until     string
	PauseMs   int
	Text      *string
	First     int
	Last      int
	Signal    string
	Path      string
	Env       map[string]string
	Scheme    string
	Host      string
	Port      int
	Forward   string
}

type goAgent struct {
	ctx    context.Context
	client *client.Client

	mu        sync.Mutex
	processes map[string]*goProcess
	forwards  map[string]*goForward
}

type goProcess struct {
	*client.Process
	events  *client.Subscription
	last    uint64
	streams map[string]*reading
}

// A reading is what was read of a stream.
type reading struct {
	bytes int64
	hash  hash.Hash
}

func (r *reading) Write(p []byte) (int, error) {
	r.bytes += int64(len(p))
	return r.hash.Write(p)
}

func (r *reading) summary() summary { return summary{r.bytes, hex.EncodeToString(r.hash.Sum(nil))} }

// numbers is the text of the numbers from first to last, a line each.
func numbers(first, last int) []byte {
	var b []byte
	for n := first; n <= last; n++ {
		b = append(strconv.AppendInt(b, int64(n), 10), '\n')
	}
	return b
}

func (g *goAgent) carryOut(c command) (any, error) {
	switch c.Do {
	case "connect":
		return g.connect(c)
	case "proxy":
		var env []string
		for name, value := range c.Env {
			env = append(env, name+"="+value)
		}
		address := ""
		if !host.IsThisMachine(c.Host) { // as in package client
			if p := host.ProxiesOf(env, slog.New(slog.DiscardHandler)).For(c.Scheme, net.JoinHostPort(c.Host, strconv.Itoa(c.Port))); p != nil {
				address = p.Address()
			}
		}
		return map[string]any{"proxy": address}, nil
	}
	if c.Process != "" && c.Do != "start" && c.Do != "forward" {
		g.mu.Lock()
		p := g.processes[c.Process]
		g.mu.Unlock()
		if p == nil {
			return nil, fmt.Errorf("there is no process %s", c.Process)
		}
		return p.carryOut(g.ctx, c)
	}
	through := files.Of(g.client)
	none := map[string]any{}
	switch c.Do {
	case "close":
		return none, g.client.Close()
	case "start":
		return g.start(c)
	case "putFile":
		data := numbers(c.First, c.Last)
		return none, through.Upload(g.ctx, c.Path, bytes.NewReader(data), int64(len(data)), files.UploadOptions{})
	case "getFile":
		read := &reading{hash: sha256.New()}
		err := through.Download(g.ctx, c.Path, read, files.DownloadOptions{})
		return read.summary(), err
	case "list":
		entries, err := through.ReadDir(g.ctx, c.Path)
		names := []string{}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		slices.Sort(names)
		return map[string]any{"names": names}, err
	case "stat":
		info, err := through.Stat(g.ctx, c.Path)
		if err != nil {
			return nil, err
		}
		return map[string]any{"size": info.Size(), "isFile": info.Mode().IsRegular(), "isDirectory": info.IsDir()}, nil
	}
	return g.carryOutPorts(c)
}

func (g *goAgent) connect(c command) (any, error) {
	for _, name := range proxyVariables {
		if value, named := c.Env[name]; named {
			os.Setenv(name, value)
		} else {
			os.Unsetenv(name)
		}
	}
	opts := client.Options{Name: "conformance", TTL: time.Duration(c.TTLMs) * time.Millisecond, Silence: time.Duration(c.SilenceMs) * time.Millisecond}
	dialled, err := client.Dial(g.ctx, c.URL, opts)
	if err != nil {
		return nil, err
	}
	g.client = dialled
	return map[string]any{"sessionId": dialled.SessionID(), "publicId": dialled.PublicID()}, nil
}

func (g *goAgent) start(c command) (any, error) {
	p, err := g.client.Start(g.ctx, client.Command{Argv: c.Argv, Dir: c.Cwd, TTY: c.TTY, Stdin: c.Stdin, Rows: int(c.Rows), Cols: int(c.Cols)})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.processes[c.Process] = &goProcess{Process: p, events: p.Subscribe(), streams: map[string]*reading{}}
	return map[string]any{"processId": p.ID()}, nil
}

func (p *goProcess) carryOut(ctx context.Context, c command) (any, error) {
	none := map[string]any{}
	switch c.Do {
	case "read":
		return p.read(ctx, c)
	case "wait":
		exit, err := p.Wait(ctx)
		return map[string]any{"code": exit.Code}, err
	case "write":
		if c.Text != nil {
			return none, p.Write(ctx, []byte(*c.Text))
		}
		return none, p.Write(ctx, numbers(c.First, c.Last))
	case "closeStdin":
		return none, p.CloseStdin(ctx)
	case "signal":
		return none, p.Signal(ctx, c.Signal)
	case "resize":
		return none, p.Resize(ctx, int(c.Rows), int(c.Cols))
	case "terminate":
		running, err := p.Terminate(ctx)
		return map[string]any{"running": running}, err
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

// read reads on until so many bytes have come, until a text has come, or to the end.
func (p *goProcess) read(ctx context.Context, c command) (any, error) {
	got, tail, ended := int64(0), "", false
	for (c.Bytes == nil || got < *c.Bytes) && (c.Until == "" || !strings.Contains(tail, c.Until)) {
		e, err := p.events.Next(ctx)
		if err == io.EOF {
			ended = true
			break
		}
		if err != nil {
			return nil, err
		}
		if e.Kind == client.Gap {
			return nil, &client.GapError{First: e.First, Last: e.Seq}
		}
		if e.Seq != p.last+1 {
			return nil, fmt.Errorf("event %d follows %d", e.Seq, p.last)
		}
		p.last = e.Seq
		if e.Kind == client.Output {
			if p.streams[e.Stream] == nil {
				p.streams[e.Stream] = &reading{hash: sha256.New()}
			}
			p.streams[e.Stream].Write(e.Data)
			got += int64(len(e.Data))
			if c.Until != "" {
				tail = tail[max(0, len(tail)-len(c.Until)):] + string(e.Data)
			}
		}
		if c.PauseMs > 0 {
			time.Sleep(time.Duration(c.PauseMs) * time.Millisecond)
		}
	}
	streams := map[string]summary{}
	for name, r := range p.streams {
		streams[name] = r.summary()
	}
	return map[string]any{"streams": streams, "last": p.last, "ended": ended}, nil
}
