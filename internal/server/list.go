package server

import (
	"cmp"
	"slices"
	"sort"
	"unicode"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// listProcesses lists the current processes that the client may use. Measuring their usage takes a while, so the answer comes from a goroutine
// of its own and later requests do not wait.
func (r *request) listProcesses(p *wire.ListParams) error {
	server := r.conn.server
	list, err := r.processesOf(p.SessionID)
	if err != nil {
		return err
	}
	r.conn.tasks.Go(func() { // ends after one measurement; the connection waits for it
		addStates(list)
		result := wire.ListResult{Processes: server.withUsage(list)}
		if p.SessionID == nil {
			result.Survivors = server.survivors(list, r.conn.rights())
		}
		r.Reply(result)
	})
	return nil
}

// processesOf returns the current processes of a session, or of all sessions that the client may use, in the order of their starts.
func (r *request) processesOf(sessionID *string) (list []session.Listed, err error) {
	var sessions []*session.Session
	if sessionID == nil {
		sessions = r.conn.server.sessions.Of(r.conn.rights())
	} else {
		s, err := r.conn.byPublicID(*sessionID)
		if err != nil {
			return nil, err
		}
		sessions = []*session.Session{s}
	}
	for _, s := range sessions {
		list = append(list, s.Processes()...)
	}
	sort.SliceStable(list, func(i, j int) bool {
		x, y := &list[i].Info, &list[j].Info
		return cmp.Or(cmp.Compare(x.StartedAtMs, y.StartedAtMs), cmp.Compare(x.ProcessID, y.ProcessID)) < 0
	})
	return list, nil
}

// withUsage adds CPU time and memory of the processes.
func (s *Server) withUsage(list []session.Listed) []wire.ProcessInfo {
	infos := make([]wire.ProcessInfo, 0, len(list))
	if len(list) == 0 {
		return infos
	}
	usage := s.usage.Usage()
	for _, p := range list {
		if used, known := usage[p.Child]; known {
			cpu := uint64(used.CPU.Milliseconds())
			p.Info.CPUMs, p.Info.MemoryBytes = &cpu, &used.Memory
		}
		infos = append(infos, p.Info)
	}
	return infos
}

// survivors are killed processes that a client may use and that belong to none of the listed ones.
func (s *Server) survivors(list []session.Listed, rights session.Rights) (left []wire.Survivor) {
	listed := make(map[*proc.Process]bool, len(list))
	for _, p := range list {
		listed[p.Child] = true
	}
	for _, p := range s.procs.Processes() {
		if !listed[p] && rights.Over(p.Owner()) && len(left) < wire.MaxSurvivors {
			left = append(left, session.WireSurvivors(p)...)
		}
	}
	return left
}

func (r *request) listSessions(*wire.NoParams) (wire.SessionListResult, error) {
	return wire.SessionListResult{Sessions: r.conn.server.sessions.List(r.conn.rights())}, nil
}

// checkLabel refuses labels that would not fit into a line of a list.
func checkLabel(label string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(label) > wire.MaxLabel || slices.ContainsFunc([]rune(label), unprintable) {
		return wire.Errorf(wire.CodeInvalidParams, "label must be printable text of at most %d bytes", wire.MaxLabel)
	}
	return nil
}
