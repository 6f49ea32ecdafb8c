package server

import (
	"runtime"
	"strings"
	"sync"

	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/discover"
	"github.com/tetherexec/tether/wire"
)

// capabilities are the optional features that clients may use.
// LinuxRootWritePreservesDevices: a sandbox that makes everything writable keeps
// the devices of the machine. LinuxApprovedRootWritePreservesRestrictions: a
// sandbox that was approved keeps its denied paths.
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

// executorVersion is the version that clients see. They compare it as a semantic
// version with releases of the reference before they use some methods, so it is the
// version of the protocol. The version of tether is appended as build metadata, which
// does not count in comparisons. Build metadata is a list of non-empty words of ASCII
// letters, digits and hyphens, with dots in between: other characters become hyphens.
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

func (r *request) environmentInfo(*wire.NoParams) (wire.EnvironmentInfo, error) {
	return r.conn.server.info, nil
}

func (r *request) environmentStatus(*wire.NoParams) (wire.StatusResult, error) {
	return wire.StatusResult{Status: "ready"}, nil
}

func (r *request) readConfig(p *wire.ConfigReadParams) (wire.ConfigReadResult, error) {
	ctx := r.attachment.Context()
	if err := r.Permit(ctx, longAnswer); err != nil {
		return wire.ConfigReadResult{}, err
	}
	return codexhome.Read(ctx, r.conn.server.env, p)
}

func (r *request) discoverRoots(p *wire.DiscoverRootsParams) (wire.DiscoverRootsResult, error) {
	room, err := r.discoveryRoom()
	if err != nil {
		return wire.DiscoverRootsResult{}, err
	}
	a := r.attachment
	return discover.Roots(a.Context(), p, a.Session.Files, room)
}

func (r *request) discoverCapabilities(p *wire.DiscoverCapabilitiesParams) (wire.DiscoverCapabilitiesResult, error) {
	room, err := r.discoveryRoom()
	if err != nil {
		return wire.DiscoverCapabilitiesResult{}, err
	}
	a := r.attachment
	return discover.Capabilities(a.Context(), r.conn.server.env, p, a.Session.Files, room)
}

// discoveryRoom returns a function that makes room for the files that a search reads. Files that fit into longAnswer need
// no more room.
func (r *request) discoveryRoom() (func(bytes int64) error, error) {
	ctx := r.attachment.Context()
	if err := r.Permit(ctx, longAnswer); err != nil {
		return nil, err
	}
	var mu sync.Mutex // searches run concurrently
	var read, room int64 = 0, longAnswer
	return func(n int64) error {
		mu.Lock()
		defer mu.Unlock()
		if read += n; read <= room {
			return nil
		}
		if err := r.PermitMore(ctx, longAnswer); err != nil {
			read -= n
			return err
		}
		room += longAnswer
		return nil
	}, nil
}

// watchMissing answers before any of its reports is sent.
func (r *request) watchMissing(p *wire.WatchMissingParams) error {
	c := r.conn
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
