package server

import (
	"net"
	"os"

	"github.com/tetherexec/tether/internal/peer"
	"github.com/tetherexec/tether/wire"
)

// featureKeeper is the feature of a server that has a keeper.
const featureKeeper = "keeper"

// keeperState tells about the keeper and the workers of this server.
func (r *request) keeperState(*wire.NoParams) (wire.KeeperState, error) {
	k, err := r.kept()
	if err != nil {
		return wire.KeeperState{}, err
	}
	state := k.Workers()
	state.Version = r.conn.server.config.Version
	return state, nil
}

// upgrade replaces the program of this server. The answer comes when that was refused, or when the new program has proved
// that it can read the state and is about to take over.
func (r *request) upgrade(p *wire.UpgradeParams) (wire.UpgradeResult, error) {
	k, err := r.kept()
	if err != nil {
		return wire.UpgradeResult{}, err
	}
	if err := r.ownerOnly(); err != nil {
		return wire.UpgradeResult{}, err
	}
	program := ""
	if p.Program != nil {
		program = *p.Program
	}
	worker := k.Workers().Worker
	if err := k.Upgrade(program); err != nil {
		return wire.UpgradeResult{}, wire.Errorf(wire.CodeInvalidRequest, "%v", err)
	}
	return wire.UpgradeResult{Worker: worker}, nil
}

// kept returns what the keeper has for this server, or an error if it has no keeper.
func (r *request) kept() (*Kept, error) {
	if k := r.conn.server.config.Kept; k != nil {
		return k, nil
	}
	return nil, wire.Errorf(wire.CodeInvalidRequest, "the server has no keeper")
}

// ownerOnly refuses a request of a client that is no process of the user of this server.
func (r *request) ownerOnly() error {
	err := r.conn.fromOwner()
	if err == nil {
		return nil
	}
	r.conn.log.Warn("a client may not do what only the user of this server may", "method", r.Method, "err", err)
	pid := os.Getpid()
	if k := r.conn.server.config.Kept; k != nil {
		pid = k.Workers().KeeperPID
	}
	return wire.Errorf(wire.CodeInvalidRequest, "only the user of the server may do that, over its Unix socket: %v; without one, send SIGHUP to process %d", err, pid)
}

// fromOwner returns nil if the client is a process of the user of this server, on this machine.
func (c *conn) fromOwner() error {
	if s, ok := c.stream.(interface{ Conn() net.Conn }); ok {
		return peer.Owner(s.Conn())
	}
	return peer.Owner(nil)
}
