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

// maxEnded is how many ended sessions, and maxChunks how many results, can be searched by
// their ids; the oldest are dropped first. The executor does not keep more output for long either.
const (
	maxEnded  = 256
	maxChunks = 1024
)

// An mcpSession is the state of one MCP session.
type mcpSession struct {
	config   *Config
	executor unifiedexec.Executor
	manager  *unifiedexec.Manager
	calls    atomic.Uint64   // counts calls, for their ids
	searches atomic.Bool     // the executor can search output
	asks     bool            // the user can be asked to allow more
	ctx      context.Context // ends with the mcpSession, and ends its calls
	cancel   context.CancelFunc

	mu       sync.Mutex
	sessions recentMap[int]    // the process of each session, by its id
	chunks   recentMap[string] // the process of each result, by its chunk id
	watchers map[*progress]struct{}
}

// A recentMap keeps its newest entries.
type recentMap[K comparable] struct {
	most int
	keys []K // oldest first
	at   map[K]string
}

func (s *recentMap[K]) put(key K, value string) {
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

func newMCPSession(c *Config, asks bool) (*mcpSession, error) {
	m := &mcpSession{config: c, asks: asks, watchers: make(map[*progress]struct{})}
	m.executor = unifiedexec.RemoteFunc(m.client)
	m.sessions.most, m.chunks.most = maxEnded, maxChunks
	m.ctx, m.cancel = context.WithCancel(context.Background())
	var err error
	m.manager, err = unifiedexec.New(unifiedexec.Config{
		Environments: []unifiedexec.Environment{{
			ID: "executor", Executor: m.executor, Local: c.Local, Cwd: c.Cwd, Sandbox: c.Sandbox, Network: c.Network, KeepHost: c.KeepHost, Limits: c.Limits,
		}},
		Policy:                c.Policy,
		Approver:              unifiedexec.ApproverFunc(m.approve),
		Budget:                unifiedexec.Budget{Tokens: outputBudget},
		AdditionalPermissions: c.asks(),
		Identity:              unifiedexec.Identity{Version: c.Version},
		Observe:               m.observe,
	})
	return m, err
}

// client returns the session with the executor, and records whether it can search.
func (m *mcpSession) client(ctx context.Context) (*client.Client, error) {
	c, err := m.config.Client(ctx)
	if err == nil {
		m.searches.Store(c.Has(client.FeatureSearch))
	}
	return c, err
}

// close ends the calls and the commands.
func (m *mcpSession) close() {
	m.cancel()
	m.manager.Close()
}

// A call is one call of a tool. The context carries it, so that questions about it go to the
// right client.
type call struct {
	id      string
	session *mcp.ServerSession
	over    atomic.Bool // its result is there; its command may run on
}

type callKey struct{}

// begin puts a new call into the context. The caller sets over at its end.
func (m *mcpSession) begin(ctx context.Context, session *mcp.ServerSession) (context.Context, *call) {
	c := &call{id: fmt.Sprintf("mcp-%d", m.calls.Add(1)), session: session}
	return context.WithValue(ctx, callKey{}, c), c
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// remember records the process of a result. session is 0 if it has none.
func (m *mcpSession) remember(r *unifiedexec.Result, session int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chunks.put(r.ChunkID, r.ProcessID)
	if session != 0 {
		m.sessions.put(session, r.ProcessID)
	}
}

// ofSession returns the process of a session, which may have ended, or "".
func (m *mcpSession) ofSession(id int) string {
	for _, s := range m.manager.Sessions() { // includes sessions whose call was cancelled
		if s.ID == id {
			return s.ProcessID
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions.at[id]
}

func (m *mcpSession) ofChunk(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chunks.at[strings.ToLower(strings.TrimSpace(id))]
}

// executorPaths resolves paths on the executor.
type executorPaths struct {
	client *client.Client
	system string // "windows", or "linux" for all others
	root   string
}

// executorPaths returns the paths of the executor.
func (m *mcpSession) executorPaths(ctx context.Context) (executorPaths, error) {
	c, err := m.config.Client(ctx)
	if err != nil {
		return executorPaths{}, err
	}
	info, err := m.executor.Info(ctx)
	if err != nil {
		return executorPaths{}, err
	}
	p, err := pathsOf(m.config, info)
	p.client = c
	return p, err
}

// pathsOf returns the paths of an executor that describes itself with info.
func pathsOf(c *Config, info wire.EnvironmentInfo) (executorPaths, error) {
	p := executorPaths{system: "linux"}
	if strings.EqualFold(info.PlatformOS, "windows") {
		p.system = "windows"
	}
	var err error
	p.root, err = (&unifiedexec.Environment{Cwd: c.Cwd}).Dir(info)
	return p, err
}

// path returns the absolute path of a name.
func (p executorPaths) path(name string) string {
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

// parent returns the directory of a path, or "" if it cannot be missing.
func (p executorPaths) parent(name string) string {
	separators := "/"
	if p.system == "windows" {
		separators = `/\`
	}
	return name[:max(0, strings.LastIndexAny(name, separators))]
}

// files returns the executor's files with the limits of a sandbox, which are those of commands.
func (p executorPaths) files(sandbox *wire.Sandbox) *files.Files {
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
