package wire

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"testing"
)

func TestBase64(t *testing.T) {
	for in, want := range map[string]string{"": "", "YQ==": "a", "YWI=": "ab", "YWJj": "abc", "+/8=": "\xfb\xff"} {
		var b Base64
		if err := Decode(AppendString(nil, in), &b); err != nil || string(b) != want || b == nil {
			t.Errorf("%q: %q, %v", in, b, err)
		}
	}
}

// The texts were taken from the reference.
func TestBase64Errors(t *testing.T) {
	for in, want := range map[string]string{
		"@": "Invalid symbol 64, offset 0.", "@@@@": "Invalid symbol 64, offset 0.", "a": "Invalid input length: 1",
		"ab": "Invalid padding", "abc": "Invalid padding", "Yg=": "Invalid padding", "YWJjYQ": "Invalid padding",
		"YWJjY": "Invalid input length: 5", "aGl=": "Invalid last symbol 108, offset 2.",
		"YR==": "Invalid last symbol 82, offset 1.", "YWJjYR==": "Invalid last symbol 82, offset 5.",
		"aGkA=": "Invalid symbol 61, offset 4.", "aGk==": "Invalid symbol 61, offset 3.", "a===": "Invalid symbol 61, offset 1.",
		"====": "Invalid symbol 61, offset 0.", "=": "Invalid symbol 61, offset 0.", "ab=c": "Invalid symbol 61, offset 2.",
		"YQ==YQ==": "Invalid symbol 61, offset 2.", "aGk=\n": "Invalid symbol 10, offset 4.",
		"aGk\n=": "Invalid symbol 10, offset 3.", "aG k": "Invalid symbol 32, offset 2.", "a-_b": "Invalid symbol 45, offset 1.",
		"é": "Invalid symbol 195, offset 0.", "AAAA====": "Invalid symbol 61, offset 4.", "AA=A": "Invalid symbol 61, offset 2.",
		"YQ\r\n": "Invalid symbol 13, offset 2.", "YWJj\n\n\n\n": "Invalid symbol 10, offset 4.",
		"YQ=\n": "Invalid symbol 61, offset 2.",
	} {
		var b Base64
		if err := Decode(AppendString(nil, in), &b); err == nil || err.Error() != want {
			t.Errorf("%q: %q, %v; want %s", in, b, err, want)
		}
	}
}

// Property: exactly the canonical encodings are accepted.
func FuzzBase64(f *testing.F) {
	for _, seed := range []string{"", "YQ==", "YR==", "aGk\n=", "====", "a", "YWJjZGVm", "YQ\n=="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := decodeBase64([]byte(text))
		if err != nil {
			if plain, e := base64.StdEncoding.DecodeString(text); e == nil && base64.StdEncoding.EncodeToString(plain) == text {
				t.Fatalf("%q is canonical, but: %v", text, err)
			}
			return
		}
		if base64.StdEncoding.EncodeToString(out) != text {
			t.Fatalf("%q is not canonical, but decodes to %q", text, out)
		}
	})
}

const workspaceWrite = `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
	`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},` +
	`{"path":{"type":"special","value":{"kind":"project_roots","subpath":".git"}},"access":"read","missing_path_behavior":"skip"},` +
	`{"path":{"type":"special","value":{"kind":"unknown","path":":new","subpath":"x"}},"access":"write"},` +
	`{"path":{"type":"path","path":"file:///opt/data"},"access":"deny"},` +
	`{"path":{"type":"glob_pattern","pattern":"**/*.env"},"access":"deny"}],"glob_scan_max_depth":2},"network":"restricted"},` +
	`"windowsSandboxLevel":"restricted-token","cwd":"file:///home/dev","policyContext":{"cwd":null,"workspaceRoots":["file:///w"]},` +
	`"workspaceRoots":["file:///home/dev"],"userHomeDir":null,"temporaryDirectories":[],` +
	`"sandboxOverride":"noOverride","windowsSandboxProxySettingsMode":"reconcile","useLegacyLandlock":false}`

func TestSandbox(t *testing.T) {
	var s Sandbox
	if err := Decode([]byte(workspaceWrite), &s); err != nil {
		t.Fatal(err)
	}
	if s.Disabled() || s.Permissions.Network != NetworkRestricted || len(s.Permissions.FileSystem.Entries) != 5 {
		t.Errorf("got %+v", s)
	}
	if got := s.Permissions.FileSystem.Entries[3]; got.Path.Path.String() != "file:///opt/data" || got.Access != AccessDeny {
		t.Errorf("entry 3: %+v", got)
	}
	out, err := appendAny(nil, s)
	if err != nil || string(out) != workspaceWrite {
		t.Errorf("written again:\n%s\nwant\n%s", out, workspaceWrite)
	}
}

func TestSandboxForms(t *testing.T) {
	sandbox := func(permissions string) string {
		return `{"permissions":` + permissions + `,"windowsSandboxLevel":"disabled"}`
	}
	for in, want := range map[string]Permissions{
		`{"type":"disabled","network":5}`:         {Type: PermissionsDisabled},
		`{"network":"enabled","type":"external"}`: {Type: PermissionsExternal, Network: NetworkEnabled},
		`{"type":"managed","network":"restricted","file_system":{"type":"unrestricted","entries":5}}`: {
			Type: PermissionsManaged, Network: NetworkRestricted, FileSystem: FileSystemPolicy{Type: FileSystemUnrestricted}},
		`{"type":"managed","network":"enabled","file_system":{"type":"restricted","glob_scan_max_depth":null,"entries":[
			{"access":"none","path":{"value":{"kind":"current_working_directory"},"type":"special"},"missing_path_behavior":null}]}}`: {
			Type: PermissionsManaged, Network: NetworkEnabled, FileSystem: FileSystemPolicy{Type: FileSystemRestricted, Entries: []SandboxEntry{
				{Path: SandboxPath{Type: SandboxPathSpecial, Special: SpecialPath{Kind: SpecialProjectRoots}}, Access: AccessDeny}}}},
	} {
		var s Sandbox
		if err := Decode([]byte(sandbox(in)), &s); err != nil || !reflect.DeepEqual(s.Permissions, want) {
			t.Errorf("%s: %+v, %v", in, s.Permissions, err)
		}
		if s.Disabled() != (want.Type == PermissionsDisabled) {
			t.Errorf("%s: Disabled() = %v", in, s.Disabled())
		}
	}
}

// The texts were taken from the reference.
func TestSandboxErrors(t *testing.T) {
	managed := func(fs string) string {
		return `{"permissions":{"type":"managed","network":"enabled","file_system":` + fs + `},"windowsSandboxLevel":"disabled"}`
	}
	entry := func(e string) string { return managed(`{"type":"restricted","entries":[` + e + `]}`) }
	for in, want := range map[string]string{
		`5`:                                    "invalid type: number, expected struct WireFileSystemSandboxContext",
		`{}`:                                   "missing field `permissions`",
		`{"permissions":null}`:                 "invalid type: null, expected internally tagged enum ExecPermissionProfile",
		`{"permissions":5}`:                    "invalid type: integer `5`, expected internally tagged enum ExecPermissionProfile",
		`{"permissions":{}}`:                   "missing field `type`",
		`{"permissions":{"type":"read-only"}}`: "unknown variant `read-only`, expected one of `managed`, `disabled`, `external`",
		`{"permissions":{"type":5}}`:           "invalid type: number, expected variant identifier",
		`{"permissions":{"type":"disabled"}}`:  "missing field `windowsSandboxLevel`",
		`{"permissions":{"type":"external"}}`:  "missing field `network`",
		`{"permissions":{"type":"external","network":"x"}}`:        "unknown variant `x`, expected `restricted` or `enabled`",
		`{"permissions":{"type":"external","network":5}}`:          "invalid type: integer `5`, expected string or map",
		`{"permissions":{"type":"managed"}}`:                       "missing field `file_system`",
		managed(`null`):                                            "invalid type: null, expected internally tagged enum ExecManagedFileSystemPermissions",
		managed(`{"type":"x"}`):                                    "unknown variant `x`, expected `restricted` or `unrestricted`",
		managed(`{"type":"restricted"}`):                           "missing field `entries`",
		managed(`{"type":"restricted","entries":null}`):            "invalid type: null, expected a sequence",
		managed(`{"type":"restricted","entries":[5]}`):             "invalid type: integer `5`, expected struct ExecFileSystemSandboxEntry",
		managed(`{"type":"restricted","glob_scan_max_depth":0}`):   "invalid value: integer `0`, expected a nonzero usize",
		managed(`{"type":"restricted","glob_scan_max_depth":-1}`):  "invalid value: integer `-1`, expected a nonzero usize",
		managed(`{"type":"restricted","glob_scan_max_depth":1.5}`): "invalid type: floating point `1.5`, expected a nonzero usize",
		managed(`{"type":"restricted","glob_scan_max_depth":"x"}`): `invalid type: string "x", expected a nonzero usize`,
		entry(`{}`):                      "missing field `path`",
		entry(`{"access":"x","path":5}`): "unknown variant `x`, expected one of `read`, `write`, `deny`, `none`",
		entry(`{"access":"read","missing_path_behavior":"x"}`): "unknown variant `x`, expected `skip`",
		entry(`{"path":"x"}`):                                           `invalid type: string "x", expected internally tagged enum ExecFileSystemPath`,
		entry(`{"path":{"type":"x"}}`):                                  "unknown variant `x`, expected one of `path`, `glob_pattern`, `special`",
		entry(`{"path":{"type":"path","path":5}}`):                      "invalid type: integer `5`, expected a string",
		entry(`{"path":{"type":"path","path":"/x"}}`):                   "invalid URI: relative URL without a base",
		entry(`{"path":{"type":"glob_pattern"}}`):                       "missing field `pattern`",
		entry(`{"path":{"type":"special","value":"root"}}`):             `invalid type: string "root", expected internally tagged enum FileSystemSpecialPath`,
		entry(`{"path":{"type":"special","value":{"kind":"x"}}}`):       "unknown variant `x`, expected one of `root`, `minimal`, `current_working_directory`, `project_roots`, `tmpdir`, `slash_tmp`, `unknown`",
		entry(`{"path":{"type":"special","value":{"kind":"unknown"}}}`): "missing field `path`",
		entry(`{"path":{"type":"special","value":{"kind":"root"}}}`):    "missing field `access`",
		`{"windowsSandboxLevel":"x"}`:                                   "unknown variant `x`, expected one of `disabled`, `restricted-token`, `elevated`, `mxc`",
		`{"policyContext":5}`:                                           "invalid type: number, expected struct WireFileSystemPolicyContext",
		`{"policyContext":{"workspaceRoots":null}}`:                     "invalid type: null, expected a sequence",
		`{"workspaceRoots":["/x"]}`:                                     "invalid URI: relative URL without a base",
		`{"temporaryDirectories":5}`:                                    "invalid type: number, expected a sequence",
		`{"sandboxOverride":"x"}`:                                       "unknown variant `x`, expected one of `noOverride`, `escalatedSandboxWithRestrictions`, `bypassSandboxFirstAttempt`",
		`{"windowsSandboxProxySettingsMode":"x"}`:                       "unknown variant `x`, expected `reconcile` or `preserve`",
		`{"useLegacyLandlock":null}`:                                    "invalid type: null, expected a boolean",
	} {
		if err := Decode([]byte(in), new(Sandbox)); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
}

func TestEncode(t *testing.T) {
	code, yes := 3, true
	for _, tt := range []struct {
		v    any
		want string
	}{
		{nil, `null`},
		{Empty{}, `{}`},
		{&WriteResult{Status: WriteAccepted}, `{"status":"accepted"}`},
		{RawValue(nil), `null`},
		{RawValue(`{"a":1}`), `{"a":1}`},
		{EnvPolicy{Inherit: InheritAll}, `{"inherit":"all","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":[]}`},
		{map[string]any{"b": 1.5, "a": []string{"<&>"}}, `{"a":["<&>"],"b":1.5}`},
		{ReadResult{Chunks: []OutputChunk{{Seq: 1 << 63, Stream: StreamPTY, Chunk: Base64("hi")}}, NextSeq: 2, Exited: true, ExitCode: &code},
			`{"chunks":[{"seq":9223372036854775808,"stream":"pty","chunk":"aGk="}],"nextSeq":2,"exited":true,"exitCode":3,"closed":false,"failure":null,"sandboxDenied":false}`},
		{ProcessExited{ProcessID: "p", Seq: 4, ExitCode: -1, SandboxDenied: &yes}, `{"processId":"p","seq":4,"exitCode":-1,"sandboxDenied":true}`},
		{SessionInfo{SessionID: "s"}, `{"sessionId":"s","clientName":"","attached":false,"createdAtMs":0,"ttlMs":0,"processes":0}`},
		{MetadataParams{Path: PathURI{"file:///a"}}, `{"path":"file:///a","followSymlinks":null,"sandbox":null}`},
	} {
		if got, err := appendAny(nil, tt.v); string(got) != tt.want || err != nil {
			t.Errorf("%+v: %s, %v; want %s", tt.v, got, err, tt.want)
		}
	}
	if _, err := appendAny(nil, map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was encoded")
	}
}

func TestAppendMessages(t *testing.T) {
	result, err := AppendResult([]byte("+"), IntID(2), StatusResult{Status: "ready"})
	if want := `+{"id":2,"result":{"status":"ready"}}`; string(result) != want || err != nil {
		t.Errorf("%s, %v", result, err)
	}
	e := Errorf(CodeMethodNotFound, "no `%s` & \"that\"", "x")
	if got, want := AppendError(nil, IntID(12), e), `{"error":{"code":-32601,"message":"no `+"`x`"+` & \"that\""},"id":12}`; string(got) != want {
		t.Errorf("%s", got)
	}
	if e.Error() != "no `x` & \"that\"" {
		t.Error(e)
	}
	note, err := AppendNotification(nil, NoteProcessClosed, ProcessClosed{ProcessID: "proc-1", Seq: 5})
	if want := `{"method":"process/closed","params":{"processId":"proc-1","seq":5}}`; string(note) != want || err != nil {
		t.Errorf("%s, %v", note, err)
	}
	call, err := AppendRequest(nil, StringID("a"), MethodEnvironmentStatus, nil)
	if want := `{"id":"a","method":"environment/status"}`; string(call) != want || err != nil {
		t.Errorf("%s, %v", call, err)
	}
}

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a\"\\/b": `"a\"\\/b"`, "\n\r\t\b\f\x00\x1f\x7f": `"\n\r\t\b\f\u0000\u001f` + "\x7f\"",
		"é😀\u2028": "\"é😀\u2028\"", "a\xffb\xc3": "\"a\ufffdb\ufffd\"", "<&>": `"<&>"`,
	} {
		if got := AppendString(nil, in); string(got) != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	long := bytes.Repeat([]byte("x\n"), 1000)
	var back string
	if err := Decode(AppendString(nil, string(long)), &back); err != nil || back != string(long) {
		t.Error("a long string has changed")
	}
}
