package sandbox

import (
	"errors"

	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/wire"
)

// Encode returns what explains a sandbox and the failure of a command in it: Network, Cwd, and what Decide and the roots need. It is for
// [DecodePolicy] of another program, perhaps of another version.
func (p *Policy) Encode() []byte {
	var e reexec.Encoder
	e.Text(string(p.Network))
	e.Text(p.Cwd)
	e.Flag(p.unrestricted)
	e.Flag(p.FullWrite)
	e.Number(uint64(len(p.rules.byPath)))
	for at, r := range p.rules.byPath {
		e.Text(at)
		e.Number(uint64(r.Access))
		e.Number(uint64(r.Origin))
		e.Text(r.Named)
	}
	return e
}

// DecodePolicy returns a policy that decides about paths as the encoded one. It is not for a sandbox: nothing else
// of it is known.
func DecodePolicy(b []byte) (*Policy, error) {
	d := reexec.Decode(b)
	p := &Policy{Network: wire.NetworkAccess(d.Text()), Cwd: d.Text(), rules: newRules()}
	p.unrestricted, p.FullWrite = d.Flag(), d.Flag()
	narrowed := false
	for range d.Count(4) {
		r := &Rule{Path: d.Text(), Access: Access(d.Number()), Origin: Origin(d.Number()), Named: d.Text()}
		if r.Access > Write || r.Origin > Unrestricted {
			d.Fail()
		}
		p.rules.byPath[r.Path] = r
		narrowed = narrowed || r.Access == Deny && (r.Origin == FromEntry || r.Origin == FromGlob)
	}
	p.FullRead = p.unrestricted || !narrowed && p.rules.access("/") >= Read
	if !d.Done() {
		return nil, errors.New("the record of a sandbox is damaged")
	}
	return p, nil
}
