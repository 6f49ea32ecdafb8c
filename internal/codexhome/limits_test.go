package codexhome

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/toml"
	"github.com/tetherexec/tether/wire"
)

// many writes a line for each number below n.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

// A file that would cost the decoder much time or memory is refused before it is decoded.
func TestLimitsOfAFile(t *testing.T) {
	const room = maxFile - 100
	deep := fmt.Sprintf(":1:1: nested more than %d levels deep", toml.MaxNesting)
	keys := fmt.Sprintf(":1:1: more than %d keys, tables and lists", toml.MaxKeys)
	tests := map[string]struct{ text, want string }{
		"a dotted key":        {"x" + strings.Repeat(".a", room/2) + " = 1", deep},
		"a dotted header":     {"[x" + strings.Repeat(".a", room/2) + "]", deep},
		"brackets":            {"x = " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), deep},
		"braces":              {"x = " + strings.Repeat("{a=", 9000) + "1" + strings.Repeat("}", 9000), deep},
		"keys":                {many(toml.MaxKeys+1, "k%x=1"), keys},
		"parts of keys":       {many(toml.MaxKeys/4+1, "a.b.c.k%x=1"), keys},
		"tables":              {many(toml.MaxKeys+1, "[t%x]"), keys},
		"lists of tables":     {strings.Repeat("[[t]]\n", toml.MaxKeys+1), keys},
		"empty inline tables": {"x = [" + strings.Repeat("{},", toml.MaxKeys) + "]", keys},
		"empty lists":         {"x = [" + strings.Repeat("[],", toml.MaxKeys) + "]", keys},
		"values":              {"x = [" + strings.Repeat("1,", toml.MaxValues) + "]", fmt.Sprintf(":1:1: more than %d values", toml.MaxValues)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if len(tt.text) > maxFile {
				t.Fatalf("the file has %d bytes", len(tt.text))
			}
			m := newMachine(t)
			user := m.Codex + "/config.toml"
			m.write(user, tt.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := m.read(t.Context(), m.work, params(t, m.work, servers, nil))
			runtime.ReadMemStats(&after)
			wantError(t, err, wire.CodeInternal, "failed to load executor-local config: "+user+tt.want)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
				t.Errorf("refusing the file took %d MiB", grown>>20)
			}
		})
	}
}

// Files just within the limits are read.
func TestLargeFilesAreRead(t *testing.T) {
	m := newMachine(t)
	for name, text := range map[string]string{
		"keys":     "x = [" + strings.Repeat("[],", toml.MaxKeys-2) + "]\n",
		"projects": many(4000, "[projects.\"/home/me/src/p%x\"]\ntrust_level = \"trusted\""),
		"comments": strings.Repeat("#", maxFile-1) + "\n",
	} {
		m.write(m.Codex+"/config.toml", text)
		if _, err := m.read(t.Context(), m.work, params(t, m.work, servers, nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// All files of a request together have a limit: a trusted project can have one in each
// of its directories.
func TestLimitOfAllFiles(t *testing.T) {
	m := newMachine(t)
	m.write(m.Codex+"/config.toml", trust("trusted", m.work))
	m.write(m.work+"/.git/HEAD", "")
	dir := m.work
	for range maxAll/maxFile + 1 {
		dir += "/d"
		m.write(dir+"/.codex/config.toml", strings.Repeat("#", maxFile-1)+"\n")
	}
	_, err := m.read(t.Context(), dir, params(t, dir, servers, nil))
	wantError(t, err, wire.CodeInternal, "failed to load executor-local config: Failed to read project config file ")
	if text := fmt.Sprintf("limit is %d bytes for all together", maxAll); !strings.HasSuffix(err.Error(), text) {
		t.Errorf("%v, want %s", err, text)
	}
}

// A long name is not written thousands of times.
func TestLimitOfTheText(t *testing.T) {
	long := strings.Repeat("x", maxFile/2)
	for name, text := range map[string]string{
		"tables":          "[mcp_servers." + long + "]\n" + many(5000, "a%x.b=1"),
		"lists of tables": "[mcp_servers]\n" + long + " = [" + strings.Repeat("{},", 5000) + "]\n",
	} {
		m := newMachine(t)
		m.write(m.Codex+"/config.toml", text)
		_, err := m.read(t.Context(), m.work, params(t, m.work, servers, nil))
		wantError(t, err, wire.CodeInternal, "failed to load executor-local config: "+m.Codex+"/config.toml: the selected configuration takes more than ")
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// When the client has left, no further file is read.
func TestReadEndsWithTheClient(t *testing.T) {
	m := newMachine(t)
	m.write(m.Codex+"/config.toml", "a = 1\n")
	gone := errors.New("the client has left")
	ctx, leave := context.WithCancelCause(t.Context())
	leave(gone)
	if _, err := m.read(ctx, m.work, params(t, m.work, servers, nil)); !errors.Is(err, gone) {
		t.Errorf("before the first file: %v", err)
	}
	if _, err := toml.Parse(ctx, []byte("a = 1\n")); !errors.Is(err, gone) {
		t.Errorf("in a file: %v", err)
	}
}
