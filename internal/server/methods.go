package server

import (
	"reflect"

	"github.com/tetherexec/tether/wire"
)

// methods is the whole protocol after the handshake. order.go says which requests wait for which.
var methods = map[string]*method{
	wire.MethodEnvironmentInfo:       returning("environment info", urgent, (*request).environmentInfo).looking(),
	wire.MethodEnvironmentStatus:     returning("environment status", urgent, (*request).environmentStatus).looking(),
	wire.MethodEnvironmentConfigRead: returning("environment config", slow, (*request).readConfig),
	wire.MethodDiscoverRoots:         returning("capability discovery", slow, (*request).discoverRoots),
	wire.MethodDiscoverCapabilities:  returning("capability discovery", slow, (*request).discoverCapabilities),
	wire.MethodHTTPRequest:           replying("http", slow, (*request).httpRequest),

	wire.MethodProcessStart:     replying("exec", exclusive, (*request).startProcess),
	wire.MethodProcessRead:      replying("exec", quick, (*request).readOutput),
	wire.MethodProcessWrite:     replying("exec", quick, (*request).writeInput),
	wire.MethodProcessSignal:    returning("exec", urgent, (*request).interrupt),
	wire.MethodProcessTerminate: returning("exec", urgent, (*request).terminate),

	wire.MethodFsReadFile:        replying("filesystem", slow, (*request).readFile).trying((*request).readCached),
	wire.MethodFsWriteFile:       returning("filesystem", slow, (*request).writeFile),
	wire.MethodFsCreateDirectory: returning("filesystem", slow, (*request).createDirectory),
	wire.MethodFsGetMetadata:     returning("filesystem", slow, (*request).metadata),
	wire.MethodFsCanonicalize:    returning("filesystem", slow, (*request).canonicalize),
	wire.MethodFsReadDirectory:   returning("filesystem", slow, (*request).readDirectory),
	wire.MethodFsWalk:            returning("filesystem", slow, (*request).walk),
	wire.MethodFsRemove:          returning("filesystem", slow, (*request).remove),
	wire.MethodFsCopy:            returning("filesystem", slow, (*request).copy),
	wire.MethodFsSetAttributes:   returning("filesystem", slow, (*request).setAttributes),
	wire.MethodFsWatchMissing:    replying("filesystem", exclusive, (*request).watchMissing),

	wire.MethodFsOpen:       returning("filesystem", exclusive, (*request).openFile),
	wire.MethodFsReadBlock:  replying("filesystem", exclusive, (*request).readBlock),
	wire.MethodFsWriteBlock: returning("filesystem", exclusive, (*request).writeBlock),
	wire.MethodFsClose:      returning("filesystem", exclusive, (*request).closeFile),

	wire.MethodUploadOpen:   returning("filesystem", exclusive, (*request).openUpload),
	wire.MethodUploadWrite:  returning("filesystem", exclusive, (*request).writeUpload),
	wire.MethodUploadStatus: returning("filesystem", exclusive, (*request).uploadStatus),
	wire.MethodUploadCommit: returning("filesystem", exclusive, (*request).commitUpload),
	wire.MethodUploadAbort:  returning("filesystem", exclusive, (*request).abortUpload),

	wire.MethodPortOpen:     replying("ports", quick, (*request).openPort),
	wire.MethodPortClose:    returning("ports", quick, (*request).closePort),
	wire.MethodPortListen:   returning("ports", quick, (*request).listenPort),
	wire.MethodPortAccept:   replying("ports", quick, (*request).acceptPort),
	wire.MethodPortUnlisten: returning("ports", quick, (*request).unlistenPort),
	wire.MethodPortList:     replying("ports", quick, (*request).listPorts).looking(),

	wire.MethodProcessResize:       returning("exec", quick, (*request).resize),
	wire.MethodProcessCloseStdin:   returning("exec", quick, (*request).closeStdin),
	wire.MethodProcessSignalAny:    returning("exec", urgent, (*request).signal),
	wire.MethodProcessWriteAny:     replying("exec", quick, (*request).writeAnyInput),
	wire.MethodProcessTerminateAny: returning("exec", urgent, (*request).terminateAny),
	wire.MethodProcessList:         replying("exec", quick, (*request).listProcesses).looking(),
	wire.MethodProcessState:        returning("exec", slow, (*request).processState).looking(),
	wire.MethodProcessSearch:       returning("exec", slow, (*request).searchOutput).looking(),
	wire.MethodProcessReadAny:      replying("exec", slow, (*request).readPage).looking(),
	wire.MethodProcessObserve:      replying("exec", quick, (*request).observe).looking(),
	wire.MethodProcessUnobserve:    returning("exec", quick, (*request).unobserve).looking(),
	wire.MethodProcessDescribe:     returning("exec", slow, (*request).describeProcess).looking(),
	wire.MethodProcessTakeControl:  returning("exec", quick, (*request).takeControl),
	wire.MethodProcessGiveControl:  returning("exec", quick, (*request).giveControl),
	wire.MethodSessionList:         returning("exec", quick, (*request).listSessions).looking(),
	wire.MethodSessionEnd:          replying("exec", slow, (*request).endAnySession).looking(), // only the own session

	wire.MethodConsoleCode: returning("console", quick, (*request).consoleCode).looking(), // it checks what the browser may do

	wire.MethodKeeperState:   returning("keeper", quick, (*request).keeperState).looking(),
	wire.MethodKeeperUpgrade: returning("keeper", slow, (*request).upgrade),
	wire.MethodReload:        returning("reload", slow, (*request).reload),
}

// A method is one row of the protocol.
type method struct {
	number int    // see methodNames
	family string // the name of the family in errors about the handshake
	pace   pace
	looks  bool // see looking
	params any  // nil, as pointer to the type of the parameters
	run    func(r *request, params any)
	try    func(r *request, params any) bool // see schedule.Job; may be nil
}

// A pace says how a method runs.
type pace uint8

const (
	quick     pace = iota // on the goroutine that reads the connection: it must not wait
	urgent                // quick, and admitted even if the connection has many unanswered requests: it must be small
	slow                  // on a goroutine of its own
	exclusive             // slow, and later requests with the same key wait until it is answered
)

// isUrgent reports whether a request for a method is answered also while many others wait. A request for an unknown method is not.
func isUrgent(name string) bool {
	m, known := methods[name]
	return known && m.pace == urgent
}

// newParams returns parameters for wire.Decode and run.
func (m *method) newParams() any { return reflect.New(reflect.TypeOf(m.params).Elem()).Interface() }

// returning adapts a function whose result is the answer.
func returning[P, R any](family string, pace pace, f func(*request, *P) (R, error)) *method {
	return &method{
		family: family, pace: pace, params: (*P)(nil),
		run: func(r *request, params any) {
			result, err := f(r, params.(*P))
			if err != nil {
				r.fail(err)
				return
			}
			r.Reply(result)
		},
	}
}

// replying adapts a function that answers the request itself, now or later, unless it returns an error.
func replying[P any](family string, pace pace, f func(*request, *P) error) *method {
	return &method{
		family: family, pace: pace, params: (*P)(nil),
		run: func(r *request, params any) {
			if err := f(r, params.(*P)); err != nil {
				r.fail(err)
			}
		},
	}
}

// looking marks a method that a read-only connection may use, because it changes nothing that belongs to other clients, and shows only sessions
// and processes. A method that can do more has to check conn.readOnly itself.
func (m *method) looking() *method {
	m.looks = true
	return m
}

// trying adds a function that answers a slow request at once, if it can do so without waiting.
func (m *method) trying(f func(*request, *wire.ReadFileParams) bool) *method {
	m.try = func(r *request, params any) bool { return f(r, params.(*wire.ReadFileParams)) }
	return m
}
