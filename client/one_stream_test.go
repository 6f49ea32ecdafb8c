package client_test

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// What a command with one stream prints on standard output and standard error is one stream,
// in the order in which it was printed.
func TestOneStream(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	if !c.Has(client.FeatureOneStream) {
		t.Error("the server does not announce the feature")
	}
	lines := tethertest.Interleaved(200)
	cmd := sh(lines.Script)
	cmd.OneStream = true
	p := start(t, c, cmd)
	stdout, stderr := p.Stdout(), p.Stderr()
	if got, err := io.ReadAll(stdout); string(got) != lines.Both || err != nil {
		t.Errorf("standard output is %q, %v", got, err)
	}
	if got, err := io.ReadAll(stderr); len(got) > 0 || err != nil {
		t.Errorf("standard error is %q, %v", got, err)
	}
}

// A server that does not announce one stream is not asked for it: the command has two pipes.
// A terminal is one stream anyway.
func TestOneStreamIsNotAskedFor(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	tethertest.Plain(line)
	var asked atomic.Int32
	starts := line.On(cable.FromClient, cable.Method(wire.MethodProcessStart).Always(), cable.Amend(func(members map[string]any) {
		if _, found := members["params"].(map[string]any)["oneStream"]; found {
			asked.Add(1)
		}
	}))
	c := dial(t, line.URL(), client.Options{})
	lines := tethertest.Interleaved(200)
	cmd := sh(lines.Script)
	cmd.OneStream = true
	p := start(t, c, cmd)
	for want, r := range map[string]io.Reader{lines.Stdout: p.Stdout(), lines.Stderr: p.Stderr()} {
		if got, err := io.ReadAll(r); string(got) != want || err != nil {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	cmd.TTY = true
	if _, err := start(t, c, cmd).Wait(tethertest.Within(t)); err != nil {
		t.Error(err)
	}
	if starts.Count() != 2 || asked.Load() != 0 {
		t.Errorf("%d of %d starts ask for one stream", asked.Load(), starts.Count())
	}
}
