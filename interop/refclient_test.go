//go:build interop

package interop_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// dialRef connects the strict client through a cable.
func dialRef(t *testing.T, who product) (context.Context, *cable.Cable, *tethertest.RefClient) {
	t.Helper()
	server := startServer(t, who)
	t.Cleanup(server.stop)
	cable := tethertest.LayCable(t, server.url)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	c, err := tethertest.DialRef(ctx, cable.URL(), tethertest.RefOptions{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return ctx, cable, c
}

// TestRefClientRecovers shows that the strict client does what the real one does:
// it gets all output across a cut that both servers survive.
func TestRefClientRecovers(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		ctx, cable, c := dialRef(t, who)
		printing := make(chan struct{})
		began := sync.OnceFunc(func() { close(printing) })
		p, err := c.Start(ctx, tethertest.RefStart{ID: "p", Argv: sh(`read x; ` + paced(2000, 100, "0.05")), PipeStdin: true,
			OnOutput: func(uint64, string, []byte) { began() }})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := p.Write(ctx, []byte("go\n")); err != nil || status != "accepted" {
			t.Fatalf("write: %q, %v", status, err)
		}
		select {
		case <-printing:
		case <-ctx.Done():
			t.Fatal("no output")
		}
		cable.CutFor(300 * time.Millisecond)
		got, err := p.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%x", sha256.Sum256(numbered(2000)))
		if got.ExitCode != 0 || got.Streams["stdout"].SHA256 != want {
			t.Errorf("got %+v, want SHA-256 %s", got, want)
		}
		tethertest.Eventually(t, func() error { // the output may be complete before its connection is counted
			if c.Recoveries() != 1 {
				return fmt.Errorf("%d recoveries, want 1", c.Recoveries())
			}
			return nil
		})
	})
}

// TestRefClientSeesTheReferenceLose checks that the strict client notices the one known loss of the reference: more than 1 MiB of
// output during a cut.
func TestRefClientSeesTheReferenceLose(t *testing.T) {
	t.Parallel()
	referenceOnly(t)
	ctx, cable, c := dialRef(t, ref)
	begin, done := filepath.Join(t.TempDir(), "begin"), filepath.Join(t.TempDir(), "done")
	p, err := c.Start(ctx, tethertest.RefStart{ID: "p", Argv: sh(fmt.Sprintf(`until [ -e %s ]; do sleep 0.02; done; seq 1 1000000; : > %s; sleep 60`, begin, done))})
	if err != nil {
		t.Fatal(err)
	}
	p2, err := c.Start(ctx, tethertest.RefStart{ID: "q", Argv: sh(`sleep 2; echo fine`)})
	if err != nil {
		t.Fatal(err)
	}
	cable.Cut()
	if err := os.WriteFile(begin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error { _, err := os.Stat(done); return err })
	cable.Mend()
	if _, err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "no longer retained") {
		t.Errorf("the process ended with %v, want a gap", err)
	}
	if got, err := p2.Wait(ctx); err != nil || got.ExitCode != 0 || got.Streams["stdout"].Bytes != 5 {
		t.Errorf("the other process: %+v, %v", got, err)
	}
}

// TestNonUTF8Variable: the reference's connection dies on an environment policy
// when its own environment holds such a variable; tether leaves the variable out.
func TestNonUTF8Variable(t *testing.T) {
	program(t, tether)
	t.Setenv("INTEROP_EXTRA", "ODD=\xff\xfe")
	p := &player{t: t, who: tether, server: startServer(t, tether)}
	t.Cleanup(p.server.stop)
	defer p.close()
	c := p.open()
	c.environ("all", policy("all", true, `[]`, `{}`, `["ODD","PLAIN"]`))
	if got := p.log[0].value; got != `["" "PLAIN=plain" "plain=lower"]` {
		t.Errorf("environment %s", got)
	}
}

// TestServeSubcommand: `tether serve` prints the same URL line as exec-server.
func TestServeSubcommand(t *testing.T) {
	t.Parallel()
	s := startCommand(t, tether, productCommand(t, tether, "serve", "--listen", "ws://127.0.0.1:0"))
	defer s.stop()
	p := &player{t: t, who: tether, server: s}
	defer p.close()
	c := p.open()
	c.ask("status", "environment/status", "null")
	if got := p.log[0].value; got != `{"result":{"status":"ready"}}` {
		t.Errorf("status: %s", got)
	}
}
