package conformance

import "regexp"

// refusalRows are requests that make no sense here: no process is started.
func refusalRows() []row {
	refused := func(id string, p policy, text string) row {
		return row{id: id, policy: p, script: `true`, fails: &failure{invalidParams, text}}
	}
	with := func(r row, name string, value any) row {
		r.params = map[string]any{name: value}
		return r
	}
	const windows = "file:///C:/x"
	foreign := func(what string) string {
		return "^" + regexp.QuoteMeta(what+" URI `"+windows+"` is not valid on this ") + "(exec-server )?host: " + regexp.QuoteMeta("'"+windows+"' is invalid on 'linux'")
	}
	return []row{
		with(refused("A01", workspaceOnly(), "^argv must not be empty"), "argv", []string{}),
		with(refused("A02", unconfined(), "^argv must not be empty"), "argv", []string{}),
		with(refused("A03", workspaceOnly(), foreign("failed to prepare process sandbox: command cwd")), "cwd", windows),
		with(refused("A04", unconfined(), foreign("cwd")), "cwd", windows),
		refused("A05", workspaceOnly().also("cwd", windows), foreign("sandbox cwd")),
		refused("A06", workspaceOnly().also("workspaceRoots", []string{windows}), foreign("sandbox workspace root")),
		refused("A07", readOnly().with(at("/C:/tmp", "read")), "^invalid sandbox permission path URI: 'file:///C:/tmp' is invalid on 'linux'"),
		refused("A08", readOnly().also("cwd", "/plain"), "^invalid URI: relative URL without a base"),
		refused("A09", readOnly().also("cwd", "http://x/y"), "^unsupported path URI scheme `http`"),
		refused("A10", readOnly().also("windowsSandboxLevel", "mxc"), "native MXC is unavailable on this executor"),
		refused("A11", readOnly().also("sandboxOverride", "zzz"), "^unknown variant `zzz`, expected one of `noOverride`"),
		refused("A12", readOnly().also("workspaceRoots", nil), "invalid type: null"),
		refused("A13", readOnly().also("permissions", map[string]any{"type": "read-only"}), "^unknown variant `read-only`, expected one of `managed`, `disabled`, `external`"),
		with(refused("A14", policy{}, "^missing field `permissions`"), "sandbox", map[string]any{"windowsSandboxLevel": "disabled"}),
		refused("A15", readOnly().with(glob("$WS/*.env", "deny")).also("permissions", map[string]any{
			"type": "managed", "network": "restricted", "file_system": map[string]any{"type": "restricted", "entries": []any{}, "glob_scan_max_depth": 0},
		}), "invalid value: integer `0`, expected a nonzero usize"),
		{id: "A16", policy: readOnly().also("unknownMember", 1), script: `true`},
		{id: "A17", policy: readOnly().with(unknownEntry()).also("sandboxOverride", "bypassSandboxFirstAttempt"), script: `touch n`, exit: 1, denied: yes},
	}
}

// draftRows are requests in the form of an early design.
func draftRows() []row {
	draft := func(mode string, policy any) map[string]any {
		return map[string]any{"sandbox": map[string]any{"mode": mode, "policy": policy, "sandboxPolicyCwd": "/", "windowsSandboxLevel": "disabled"}}
	}
	const refused = "the form is refused"
	readOnly := map[string]any{"type": "read-only"}
	return []row{
		{id: "DR1", params: draft("require", readOnly), kind: "linux-seccomp", script: `touch n`, exit: 1, denied: yes, out: []string{textROFS}, Reference: refused},
		{id: "DR2", params: draft("auto", readOnly), kind: "linux-seccomp", script: `touch n`, exit: 1, denied: yes, out: []string{textROFS}, Reference: refused},
		{id: "DR3", params: draft("disabled", readOnly), kind: "none", script: `touch n`, host: []string{"+$WS/n"}, Reference: refused},
		{id: "DR4", params: draft("maybe", readOnly), script: `true`, fails: &failure{invalidParams, "maybe"}, Reference: refused},
	}
}

// unknownEntry is what a newer client might send.
func unknownEntry() entry {
	return entry{"path": map[string]any{"type": "special", "value": map[string]any{"kind": "unknown", "path": ":newer"}}, "access": "write"}
}
