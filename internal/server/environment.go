package server

import (
	"runtime"
	"strings"
	"sync"

	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/discover"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// capabilities are what clients may ask for beyond the basics. A sandbox that
// makes everything writable keeps the devices of the machine, and one that was
// approved keeps what it denies.
func capabilities() wire.Capabilities {
	linux := runtime.GOOS == "linux"
	return wire.Capabilities{
		CapabilityDiscoverySandbox: true, CapabilityDiscoveryV2: true,
		EnvironmentConfigRead: true, HTTPHeaderEnvVars: true,
		FsWatchMissing: linux, FileWriteStreaming: true, SandboxedFileStreaming: linux,
		ShellSnapshotV2:    runtime.GOOS != "windows",
		NetworkProxyLaunch: true, NetworkProxyReviewDomains: true,
		LinuxRootWritePreservesDevices: linux, LinuxApprovedRootWritePreservesRestrictions: linux,
	}
}

// executorVersion is the version that clients are told. They compare it as a semantic
// version with releases of the reference before they use some methods, so it is
// that of the protocol; ours is build metadata, which does not count in comparisons.
// Build metadata is a list of non-empty words of ASCII letters, digits and hyphens,
// with dots in between: other characters become hyphens.
func executorVersion(own string) string {
	allowed := func(r rune) rune {
		switch {
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '-', r == '.':
			return r
		}
		return '-'
	}
	words := strings.FieldsFunc(strings.Map(allowed, own), func(r rune) bool { return r == '.' })
	return wire.ReferenceVersion + "+" + strings.Join(append([]string{"tether"}, words...), ".")
}

func (c *conn) environmentInfo(*session.Attachment, *wire.NoParams) (wire.EnvironmentInfo, error) {
	return c.server.info, nil
}

func (c *conn) environmentStatus(*session.Attachment, *wire.NoParams) (wire.StatusResult, error) {
	return wire.StatusResult{Status: "ready"}, nil
}

func (c *conn) readConfig(a *session.Attachment, r *rpc.Request, p *wire.ConfigReadParams) error {
	if err := r.Permit(a.Context(), longAnswer); err != nil {
		return err
	}
	result, err := codexhome.Read(a.Context(), c.server.env, p)
	if err == nil {
		r.Reply(result)
	}
	return err
}

func (c *conn) discoverRoots(a *session.Attachment, r *rpc.Request, p *wire.DiscoverRootsParams) error {
	room, err := discoveryRoom(a, r)
	if err != nil {
		return err
	}
	result, err := discover.Roots(a.Context(), p, a.Session.Files, room)
	if err == nil {
		r.Reply(result)
	}
	return err
}

func (c *conn) discoverCapabilities(a *session.Attachment, r *rpc.Request, p *wire.DiscoverCapabilitiesParams) error {
	room, err := discoveryRoom(a, r)
	if err != nil {
		return err
	}
	result, err := discover.Capabilities(a.Context(), c.server.env, p, a.Session.Files, room)
	if err == nil {
		r.Reply(result)
	}
	return err
}

// discoveryRoom returns what makes room for the files that a search reads. What longAnswer
// has room for needs no more.
func discoveryRoom(a *session.Attachment, r *rpc.Request) (func(bytes int64) error, error) {
	if err := r.Permit(a.Context(), longAnswer); err != nil {
		return nil, err
	}
	var mu sync.Mutex // searches run at the same time
	var read, room int64 = 0, longAnswer
	return func(n int64) error {
		mu.Lock()
		defer mu.Unlock()
		if read += n; read <= room {
			return nil
		}
		if err := r.PermitMore(a.Context(), longAnswer); err != nil {
			read -= n
			return err
		}
		room += longAnswer
		return nil
	}, nil
}

// watchMissing answers first: what it reports comes later.
func (c *conn) watchMissing(_ *session.Attachment, r *rpc.Request, p *wire.WatchMissingParams) error {
	answered := make(chan struct{})
	watching := c.watcher.Watch(p, func(id uint64) {
		select {
		case <-answered:
			c.rpc.Notify(wire.NoteFsMissingChanged, wire.MissingChanged{WatchID: id})
		case <-c.rpc.Context().Done():
		}
	})
	r.Reply(wire.WatchMissingResult{Watching: watching})
	close(answered)
	return nil
}
