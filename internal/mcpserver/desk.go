package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// maxEnded is how many sessions that have ended are known by their id, maxChunks how
// many results by theirs; the oldest are forgotten first. The executor does not keep the
// output of more for long either.
const (
	maxEnded  = 256
	maxChunks = 1024
)

// A desk is what one MCP session works with.
type desk struct {
	config   *Config
	executor unifiedexec.Executor
	manager  *unifiedexec.Manager
	calls    atomic.Uint64   // for their ids
	searches atomic.Bool     // the executor can search output
	asks     bool            // the user can be asked to allow more
	ctx      context.Context // ends with the desk, and its calls with it
	cancel   context.CancelFunc

	mu       sync.Mutex
	sessions shelf[int]    // ids of processes: there is no need to hold on to more
	chunks   shelf[string] // likewise
	watchers map[*progress]struct{}
}

// A shelf has the newest of its entries.
type shelf[K comparable] struct {
	most int
	keys []K // oldest first
	at   map[K]string
}

func (s *shelf[K]) put(key K, value string) {
	if s.at == nil {
		s.at = make(map[K]string)
	}
	if _, known := s.at[key]; known {
		s.keys = slices.DeleteFunc(s.keys, func(k K) bool { return k == key })
	} else if len(s.keys) == s.most {
		delete(s.at, s.keys[0])
		s.keys = s.keys[1:]
	}
	s.keys = append(s.keys, key)
	s.at[key] = value
}

func newDesk(c *Config, asks bool) (*desk, error) {
	d := &desk{config: c, asks: asks, watchers: make(map[*progress]struct{})}
	d.executor = unifiedexec.RemoteFunc(d.client)
	d.sessions.most, d.chunks.most = maxEnded, maxChunks
	d.ctx, d.cancel = context.WithCancel(context.Background())
	var err error
	d.manager, err = unifiedexec.New(unifiedexec.Config{
		Environments: []unifiedexec.Environment{{
			ID: "executor", Executor: d.executor, Local: c.Local, Cwd: c.Cwd, Sandbox: c.Sandbox, Network: c.Network,
		}},
		Policy:                c.Policy,
		Approver:              unifiedexec.ApproverFunc(d.approve),
		Budget:                unifiedexec.Budget{Tokens: outputBudget},
		AdditionalPermissions: c.asks(),
		Identity:              unifiedexec.Identity{Version: c.Version},
		Observe:               d.observe,
	})
	return d, err
}

// client returns the session with the executor, and notes what that can do.
func (d *desk) client(ctx context.Context) (*client.Client, error) {
	c, err := d.config.Client(ctx)
	if err == nil {
		d.searches.Store(c.Has(client.FeatureSearch))
	}
	return c, err
}

// close ends the calls and the commands.
func (d *desk) close() {
	d.cancel()
	d.manager.Close()
}

// A call is one call of a tool. It travels in the context, so that the questions about
// it reach its client.
type call struct {
	id      string
	session *mcp.ServerSession
}

type callKey struct{}

// begin puts a new call into the context.
func (d *desk) begin(ctx context.Context, session *mcp.ServerSession) (context.Context, *call) {
	c := &call{id: fmt.Sprintf("mcp-%d", d.calls.Add(1)), session: session}
	return context.WithValue(ctx, callKey{}, c), c
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// remember notes which process a result is of. session is 0 if it had none.
func (d *desk) remember(r *unifiedexec.Result, session int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chunks.put(r.ChunkID, r.ProcessID)
	if session != 0 {
		d.sessions.put(session, r.ProcessID)
	}
}

// ofSession is the process of a session, which may have ended; empty: there is none.
func (d *desk) ofSession(id int) string {
	for _, s := range d.manager.Sessions() { // also one whose call was cancelled
		if s.ID == id {
			return s.ProcessID
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions.at[id]
}

func (d *desk) ofChunk(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chunks.at[strings.ToLower(strings.TrimSpace(id))]
}

// A place is where paths are looked up.
type place struct {
	client *client.Client
	system string // as in runtime.GOOS, as far as paths differ
	root   string
}

// place returns the executor's side of things.
func (d *desk) place(ctx context.Context) (place, error) {
	c, err := d.config.Client(ctx)
	if err != nil {
		return place{}, err
	}
	info, err := d.executor.Info(ctx)
	if err != nil {
		return place{}, err
	}
	p, err := placeOf(d.config, info)
	p.client = c
	return p, err
}

// placeOf returns the place that an executor describes.
func placeOf(c *Config, info wire.EnvironmentInfo) (place, error) {
	p := place{system: "linux"}
	if strings.EqualFold(info.PlatformOS, "windows") {
		p.system = "windows"
	}
	var err error
	p.root, err = (&unifiedexec.Environment{Cwd: c.Cwd}).Dir(info)
	return p, err
}

// path returns the absolute path that name means.
func (p place) path(name string) string {
	separator := "/"
	switch {
	case name == "" || name == ".":
		return p.root
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "file:"):
		return name
	case p.system == "windows":
		if len(name) > 1 && name[1] == ':' || strings.HasPrefix(name, `\`) {
			return name
		}
		separator = `\`
	}
	return strings.TrimRight(p.root, `/`+separator) + separator + name
}

// parent returns the directory that a path is in; empty: none that could be missing.
func (p place) parent(name string) string {
	separators := "/"
	if p.system == "windows" {
		separators = `/\`
	}
	return name[:max(0, strings.LastIndexAny(name, separators))]
}

// files returns the executor's files as far as a sandbox lets them be reached, which is
// as far as commands get.
func (p place) files(sandbox *wire.Sandbox) *files.Files {
	if sandbox == nil {
		return files.Of(p.client)
	}
	s := *sandbox
	if s.PolicyContext == nil {
		root := wire.PathURIOn(p.system, p.root)
		if s.Cwd == nil {
			s.Cwd = &root
		}
		if len(s.WorkspaceRoots) == 0 {
			s.WorkspaceRoots = []wire.PathURI{root}
		}
	}
	if s.WindowsSandboxLevel == "" {
		s.WindowsSandboxLevel = wire.WindowsDisabled
	}
	return files.Of(p.client).Confined(&s)
}
