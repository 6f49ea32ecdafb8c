package mcpserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// entry is a rule about a path, or about the whole file system.
func entry(path string, access wire.Access) wire.SandboxEntry {
	if path == "/" {
		return wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: wire.SpecialRoot}}, Access: access}
	}
	return wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: wire.PathURIOn("linux", path)}, Access: access}
}

// restricted is a sandbox with these rules.
func restricted(network wire.NetworkAccess, entries ...wire.SandboxEntry) *wire.Sandbox {
	s := unifiedexec.ReadOnly()
	s.Permissions.Network, s.Permissions.FileSystem.Entries = network, entries
	return s
}

// The texts for models describe what the sandbox allows.
func TestDescribedSandbox(t *testing.T) {
	const allWrite, noWrite, more = "Commands and file tools may write ", "Commands and file tools may write no files; ", "To ask the user for more, "
	roots := unifiedexec.WorkspaceWrite()
	roots.PolicyContext = &wire.PolicyContext{WorkspaceRoots: []wire.PathURI{wire.PathURIOn("linux", "/a"), wire.PathURIOn("linux", "/b")}}
	many := restricted(wire.NetworkRestricted, entry("/", wire.AccessRead))
	for range maxPlaces + 3 {
		many.Permissions.FileSystem.Entries = append(many.Permissions.FileSystem.Entries, entry("/w", wire.AccessWrite))
	}
	for _, row := range []struct {
		name    string
		sandbox *wire.Sandbox
		files   string
		network string
		more    string
	}{
		{"none", nil, "There is no sandbox: commands may do all that the user of that machine may.", "", ""},
		{"read-only", unifiedexec.ReadOnly(), noWrite + "they may read everything.", "The network is off for commands.", more},
		{"workspace", unifiedexec.WorkspaceWrite(), allWrite + "only /srv/p, /tmp and $TMPDIR, but not /srv/p/.git, /srv/p/.agents, /srv/p/.codex and /srv/p/.aws; they may read everything.", "The network is off for commands.", more},
		{"roots", roots, allWrite + "only /a, /b, /tmp and $TMPDIR, but not /a/.git, /b/.git, /a/.agents, /b/.agents, /a/.codex, /b/.codex, /a/.aws and /b/.aws; they may read everything.", "The network is off for commands.", more},
		{"network", restricted(wire.NetworkEnabled, entry("/", wire.AccessWrite), entry("/etc", wire.AccessRead)), allWrite + "all files, but not /etc; they may read everything.", "The network is on for commands.", more},
		{"reads", restricted(wire.NetworkRestricted, entry("/usr", wire.AccessRead), entry("/w", wire.AccessWrite)), allWrite + "only /w; they may read only /w and /usr.", "The network is off for commands.", more},
		{"nothing", restricted(wire.NetworkRestricted), strings.TrimSuffix(noWrite, "; ") + ".", "The network is off for commands.", more},
		{"hidden", restricted(wire.NetworkRestricted, entry("/", wire.AccessRead), entry("/s", wire.AccessDeny)), noWrite + "they may read everything; hidden from them: /s.", "The network is off for commands.", "To ask the user for the network, "},
		{"hidden, with the network", restricted(wire.NetworkEnabled, entry("/", wire.AccessRead), entry("/s", wire.AccessDeny)), noWrite + "they may read everything; hidden from them: /s.", "The network is on for commands.", "The user cannot be asked to allow more."},
		{"many", many, allWrite + "only " + strings.Repeat("/w, ", maxPlaces-1) + "/w and 3 more; they may read everything.", "The network is off for commands.", more},
	} {
		c := Config{Sandbox: row.sandbox, Policy: granular, Cwd: "/srv/p"}
		at, err := pathsOf(&c, wire.EnvironmentInfo{PlatformOS: "linux"})
		if err != nil {
			t.Fatal(err)
		}
		sc := executorFacts{config: &c, at: at, asks: c.asks()}
		if got := sc.files(); got != row.files {
			t.Errorf("%s: %s\nwant %s", row.name, got, row.files)
		}
		if got := sc.network(); got != row.network {
			t.Errorf("%s: %s\nwant %s", row.name, got, row.network)
		}
		if got := sc.more(); !strings.HasPrefix(got, row.more) || row.more == "" && got != "" {
			t.Errorf("%s: %s\nwant %s", row.name, got, row.more)
		}
	}
}

// While the executor cannot be reached, the workspace has no path.
func TestWorkspaceWithoutExecutor(t *testing.T) {
	sc := executorFacts{config: &Config{Sandbox: unifiedexec.WorkspaceWrite()}, at: executorPaths{system: "linux"}}
	if got := sc.files(); !strings.Contains(got, "may write only the workspace, /tmp and $TMPDIR") {
		t.Errorf("%s", got)
	}
}

// A client can initialize while the executor cannot be reached.
func TestDescribedWithoutExecutor(t *testing.T) {
	s, err := New(Config{Client: func(context.Context) (*client.Client, error) { return nil, errors.New("out of reach") }, Where: "this machine", Cwd: "/srv/p"})
	if err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	served := make(chan error, 1)
	go func() { served <- s.serve(context.Background(), far) }() // ends with the client
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(tethertest.Within(t), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.InitializeResult().Instructions; !strings.Contains(got, "\nCommands run on this machine, in /srv/p unless workdir names another directory.\n") {
		t.Errorf("%s", got)
	}
	c.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.Close()
}
