//go:build interop

package interop_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// fileOutcome is the comparison of file requests.
const fileOutcome comparison = "the answers with code and text, or the results (times only as known or unknown, the birth time only where " +
	"the row is about it; names of readDirectory sorted; contents decoded); the files of the host afterwards, with modes, contents and link targets"

// A fileCall is one request about files.
type fileCall struct {
	method, params string
	unconfined     bool                              // has no sandbox member
	brief          bool                              // the reference does not answer
	instead        func(c *conn, f *fixture, at int) // instead of a request
}

// A fileRow is a list of requests on one connection, all with the same sandbox.
type fileRow struct {
	id     string
	policy entries // with intent empty too: no sandbox
	intent string  // instead of policy
	with   func(f *fixture)
	calls  []fileCall
	others []string // paths beside the fixture to look at, and to remove, afterwards
	born   bool     // birth times are compared
	fresh  bool     // the server does not survive it
	ignore []string // names that are not compared in readDirectory
	asRoot bool     // an ordinary user sees something else
}

// TestFilesDifferential sends the same file requests to both servers.
func TestFilesDifferential(t *testing.T) {
	t.Parallel()
	for _, group := range [][]fileRow{
		plainReadRows, plainBlockRows, plainWriteRows, plainDirectoryRows, plainListRows, plainWalkRows, plainRemoveRows, plainCopyRows,
		plainParamRows, plainHostileRows, watchRows,
	} {
		playFileRows(t, group)
	}
}

// TestFilesDifferentialSandboxed does so with a sandbox in each request. Rows
// called CF… are scenarios of docs/scenarios.md.
func TestFilesDifferentialSandboxed(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	for _, group := range [][]fileRow{confinedReadRows, confinedWriteRows, confinedTreeRows, confinedOpenRows, confinedIntentRows, changedRows, confinedHostileRows} {
		playFileRows(t, group)
	}
}

func playFileRows(t *testing.T, rows []fileRow) {
	for _, row := range rows {
		t.Run(scenario.Name(row.id), func(t *testing.T) {
			exchange{name: row.id, compares: fileOutcome, fresh: row.fresh, asRoot: row.asRoot, differs: fileDifferences[row.id], play: row.run}.run(t)
		})
	}
}

// run makes the fixture and sends the requests. The labels of observations are the number and method of the request, and host.
func (r fileRow) run(p *player) {
	f := newFixture(p.t)
	if r.with != nil {
		r.with(f)
	}
	c := p.open()
	for i, call := range r.calls {
		if call.instead != nil {
			call.instead(c, f, i+1)
			continue
		}
		params := f.expand(call.params)
		if intent := r.sandbox(); intent != "" && !call.unconfined {
			params = strings.TrimSuffix(params, "}") + `,"sandbox":` + f.expand(intent) + "}"
		}
		limit, silent := timeLimit, call.brief && p.who == ref
		if silent {
			limit = briefTime
		}
		reply := c.callWithin(limit, call.method, params)
		if !strings.HasPrefix(reply, "{") && !silent {
			p.t.Errorf("%d %s: %s", i+1, call.method, reply)
		}
		p.note(fmt.Sprintf("%d %s", i+1, call.method), r.comparable(f, withoutID(reply)))
	}
	others := make([]string, len(r.others))
	for i, path := range r.others {
		others[i] = f.expand(path)
	}
	p.note("host", f.state(others)+f.links())
}

func (r fileRow) sandbox() string {
	if r.intent == "" && r.policy != nil {
		return r.policy.intent("restricted", "")
	}
	return r.intent
}

// comparable returns an answer without the parts that may differ from run to run.
func (r fileRow) comparable(f *fixture, reply string) string {
	var m struct {
		Result map[string]any `json:"result"`
	}
	if json.Unmarshal([]byte(reply), &m) != nil || m.Result == nil {
		return reply
	}
	for _, k := range []string{"createdAtMs", "modifiedAtMs"} {
		if at, ok := m.Result[k].(float64); ok {
			m.Result[k] = map[bool]string{true: "known", false: "unknown"}[at > 0]
		}
	}
	if !r.born {
		delete(m.Result, "createdAtMs")
	}
	for _, k := range []string{"dataBase64", "chunk"} {
		if text, ok := m.Result[k].(string); ok {
			if data, err := base64.StdEncoding.DecodeString(text); err == nil {
				m.Result[k] = shorten(string(data))
			}
		}
	}
	if list, ok := m.Result["entries"].([]any); ok && !strings.Contains(reply, `"truncated"`) { // the order of a walk is compared
		list = slices.DeleteFunc(list, func(e any) bool {
			entry, _ := e.(map[string]any)
			return slices.ContainsFunc(r.ignore, func(name string) bool { return entry["fileName"] == f.expand(name) })
		})
		m.Result["entries"] = list
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(canonical(a), canonical(b)) })
	}
	if text := canonical(map[string]any{"result": m.Result}); len(normalise(text)) < 4*longOutput {
		return text
	}
	if truncated, _ := m.Result["truncated"].(bool); truncated {
		return truncatedWalk(m.Result)
	}
	return shorten(canonical(m.Result))
}

// truncatedWalk returns the comparable part of a walk that was too large for an answer. An entry counts as 64 bytes and its URI, so
// the number of entries depends on the name of the directory.
func truncatedWalk(result map[string]any) string {
	var paths []string
	size := 0
	for _, e := range asList(result["entries"]) {
		entry, _ := e.(map[string]any)
		path, _ := entry["path"].(string)
		paths, size = append(paths, path), size+64+len(path)
	}
	return fmt.Sprintf("truncated after %d KiB, in order: %t, errors: %s", (size+1023)/1024, slices.IsSorted(paths), canonical(result["errors"]))
}

// links lists where the links of a fixture lead.
func (f *fixture) links() string {
	var b strings.Builder
	filepath.WalkDir(f.top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(path)
			fmt.Fprintf(&b, "%s leads to %s\n", strings.TrimPrefix(path, f.top+"/"), target)
		}
		return nil
	})
	return b.String()
}

func (f *fixture) fifo(name string) {
	if err := syscall.Mkfifo(filepath.Join(f.top, name), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) mode(name string, mode os.FileMode) {
	if err := os.Chmod(filepath.Join(f.top, name), mode); err != nil {
		f.t.Fatal(err)
	}
}

// on is a request about one path; more are other members.
func on(method, path string, more ...string) fileCall {
	return fileCall{method: "fs/" + method, params: "{" + strings.Join(append([]string{`"path":"file://` + path + `"`}, more...), ",") + "}"}
}

// with is a request with these params.
func with(method, params string) fileCall { return fileCall{method: "fs/" + method, params: params} }

func write(path, text string, more ...string) fileCall {
	return on("writeFile", path, append([]string{fmt.Sprintf(`"dataBase64":%q`, base64Of(text))}, more...)...)
}

func copyTo(source, destination string, recursive bool) fileCall {
	return with("copy", fmt.Sprintf(`{"sourcePath":"file://%s","destinationPath":"file://%s","recursive":%t}`, source, destination, recursive))
}

func walk(path string, depth, directories, entries int, follow bool, more ...string) fileCall {
	return on("walk", path, fmt.Sprintf(`"options":{%s}`, strings.Join(append([]string{fmt.Sprintf(
		`"maxDepth":%d,"maxDirectories":%d,"maxEntries":%d,"followDirectorySymlinks":%t`, depth, directories, entries, follow)}, more...), ",")))
}

// open opens a file; the other three use the handle, and have no sandbox.
func open(handle, path string, more ...string) fileCall {
	return on("open", path, append([]string{fmt.Sprintf(`"handleId":%q`, handle)}, more...)...)
}

func readBlock(handle string, offset, length uint64) fileCall {
	return fileCall{method: "fs/readBlock", params: fmt.Sprintf(`{"handleId":%q,"offset":%d,"len":%d}`, handle, offset, length), unconfined: true}
}

func writeBlock(handle string, offset uint64, text string) fileCall {
	return fileCall{method: "fs/writeBlock", params: fmt.Sprintf(`{"handleId":%q,"offset":%d,"chunk":%q}`, handle, offset, base64Of(text)), unconfined: true}
}

func closeHandle(handle string) fileCall {
	return fileCall{method: "fs/close", params: fmt.Sprintf(`{"handleId":%q}`, handle), unconfined: true}
}

const (
	noFollow = `"followSymlinks":false`
	replace  = `"mode":"replace"`
	shallow  = `"recursive":false`
	noForce  = `"force":false`
)

// briefTime is how long to wait for an answer that is not expected.
const briefTime = 2 * time.Second

// briefly returns a request that the reference does not answer.
func briefly(call fileCall) fileCall {
	call.brief = true
	return call
}

// callWithin is call with a time limit of its own.
func (c *conn) callWithin(limit time.Duration, method, params string) string {
	id := c.send(method, params)
	if !c.await(limit, func() bool { return len(c.replies[id]) > 0 }) && c.Err() == nil {
		return "no answer"
	}
	return c.answer(id)
}

// drain reads from a FIFO, so that a server that waits for it can end.
func drain(name string) fileCall {
	return meanwhile(func(f *fixture) {
		file, err := os.OpenFile(filepath.Join(f.top, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			f.t.Fatal(err)
		}
		defer file.Close()
		file.SetReadDeadline(time.Now().Add(briefTime))
		file.Read(make([]byte, 1)) // returns at once if no process writes
	})
}

// meanwhile does something on the host between requests.
func meanwhile(do func(f *fixture)) fileCall {
	return fileCall{instead: func(_ *conn, f *fixture, _ int) { do(f) }}
}

// watch asks for a watch of these paths below the fixture.
func watch(id int, present string, missing ...string) fileCall {
	for i, path := range missing {
		missing[i] = fmt.Sprintf(`"file://%s"`, path)
	}
	if present == "" {
		present = "null"
	} else {
		present = fmt.Sprintf(`"file://%s"`, present)
	}
	return fileCall{method: "fs/watchMissing", params: fmt.Sprintf(`{"watchId":%d,"missing":[%s],"present":%s}`, id, strings.Join(missing, ","), present)}
}

// fires changes something on the host and records whether the watch reports it. expected decides only for what it waits.
func fires(expected bool, do func(f *fixture)) fileCall {
	return fileCall{instead: func(c *conn, f *fixture, at int) {
		c.mu.Lock()
		before := len(c.events[""])
		c.mu.Unlock()
		do(f)
		limit := timeLimit
		if !expected {
			awaitWatches(c.p)
			c.call("environment/status", "{}")
			limit = 0 // what was sent before the answer is here
		}
		fired := c.await(limit, func() bool { return len(c.events[""]) > before && c.events[""][before].Method == "fs/missingChanged" })
		c.p.note(fmt.Sprintf("%d fs/missingChanged", at), fired)
	}}
}
