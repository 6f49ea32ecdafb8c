package conformance

import (
	"maps"
	"regexp"
)

// refusalRows returns requests that the server must refuse.
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

// draftRows returns requests in the form of an early design.
func draftRows() []row {
	type members = map[string]any
	draft := func(mode string, more members) members {
		sandbox := members{"mode": mode, "sandboxPolicyCwd": "$WS", "windowsSandboxLevel": "disabled"}
		maps.Copy(sandbox, more)
		return members{"sandbox": sandbox}
	}
	policy := func(kind string, more members) members {
		p := members{"type": kind}
		maps.Copy(p, more)
		return members{"policy": p}
	}
	files := func(network string, entries ...members) members {
		return members{"fileSystemPolicy": members{"kind": "restricted", "entries": entries}, "networkPolicy": network}
	}
	plain := func(path, access string) members {
		return members{"path": members{"type": "path", "path": path}, "access": access}
	}
	root := func(access string) members {
		return members{"path": members{"type": "special", "value": members{"kind": "root"}}, "access": access}
	}
	cwd := func(access string) members {
		return members{"path": members{"type": "special", "value": members{"kind": "current_working_directory"}}, "access": access}
	}
	restricted := members{"type": "restricted", "include_platform_defaults": true, "readable_roots": []string{"$FX/more"}}
	readOnly := policy("read-only", nil)
	reads := func(r row) row { // reads files under restricted reads
		r.kind, r.exit = "linux-seccomp", 1
		r.setup = func(fx *fixture) { fx.write("$FX/more/f", "more\n") }
		r.script = `cat a.txt $FX/more/f && cat $OUT/secret.txt`
		r.out, r.not = []string{"^more$", "secret.txt: No such file or directory"}, []string{"top secret"}
		return r
	}
	// A failure that looks like a denial.
	const looksDenied = `touch $OUT/n; echo Permission denied >&2; exit 1`
	rows := []row{
		{id: "DR01", params: draft("require", readOnly), kind: "linux-seccomp", script: `touch n`, exit: 1, denied: yes, out: []string{textROFS}},
		{id: "DR02", params: draft("auto", readOnly), kind: "linux-seccomp", script: `touch n`, exit: 1, denied: yes, out: []string{textROFS}},
		{id: "DR03", params: draft("disabled", readOnly), kind: "none", script: `touch n`, host: []string{"+$WS/n"}},
		{id: "DR04", params: draft("maybe", readOnly), script: `true`, fails: &failure{invalidParams, "maybe"}},

		reads(row{id: "DR-read-only", params: draft("require", policy("read-only", members{"access": restricted}))}),
		reads(row{id: "DR-read-only-auto", params: draft("auto", policy("read-only", members{"access": restricted, "network_access": true}))}),
		reads(row{id: "DR-workspace-write", params: draft("require", policy("workspace-write", members{"read_only_access": restricted, "exclude_slash_tmp": true, "exclude_tmpdir_env_var": true}))}),
		{id: "DR-read-only-root", params: draft("require", merged(policy("read-only", members{"access": restricted}), members{"sandboxPolicyCwd": "/"})),
			script: `true`, fails: &failure{invalidParams, "cwd .* is hidden by the sandbox"}},
		{id: "DR-full-access", params: draft("require", policy("read-only", members{"access": members{"type": "full-access"}})), kind: "linux-seccomp",
			script: `cat $OUT/secret.txt`, out: []string{"top secret"}},

		{id: "DR-plain-paths", params: draft("require", files("restricted", root("read"), cwd("write"), plain("$WS/.git", "read"), plain("$OUT", "none"))),
			kind: "linux-seccomp", setup: func(fx *fixture) { fx.write("$WS/.git/config", "x") },
			script: `touch n; touch .git/n; cat $OUT/secret.txt`, exit: 1, denied: yes, out: []string{textROFS, textACCES}, host: []string{"+$WS/n", "-$WS/.git/n"}},
		{id: "DR-no-entries", params: draft("require", members{"fileSystemPolicy": members{"kind": "restricted"}}), script: `true`,
			fails: &failure{invalidParams, "cwd .* is hidden by the sandbox"}},
		{id: "DR-unknown", params: draft("auto", policy("danger-full-access", members{"denied_roots": []string{"/etc"}})), script: `true`,
			fails: &failure{invalidParams, "^unknown field `denied_roots`"}},

		{id: "DR-auto-full", params: draft("auto", policy("danger-full-access", nil)), kind: "none", script: looksDenied, exit: 1, denied: no, host: []string{"+$OUT/n"}},
		{id: "DR-auto-external", params: draft("auto", policy("external-sandbox", members{"network_access": "restricted"})), kind: "none", script: looksDenied,
			exit: 1, denied: no, host: []string{"+$OUT/n"}},
		{id: "DR-auto-root-write", params: draft("auto", files("enabled", root("write"))), kind: "none", script: looksDenied, exit: 1, denied: no, host: []string{"+$OUT/n"}},
		{id: "DR-auto-carve-out", params: draft("auto", files("enabled", root("write"), plain("$OUT", "read"))), kind: "linux-seccomp", script: looksDenied,
			exit: 1, denied: yes, host: []string{"-$OUT/n"}},
		{id: "DR-auto-network", params: draft("auto", merged(policy("danger-full-access", nil), members{"networkPolicy": "restricted"})), kind: "linux-seccomp",
			probe: "socket inet stream", exit: 1, out: []string{"EPERM"}},
		{id: "DR-auto-managed", params: draft("auto", merged(policy("external-sandbox", nil), members{"enforceManagedNetwork": true})), kind: "linux-seccomp",
			script: `echo ran`, exit: 101, denied: yes, not: []string{"^ran"}},
		{id: "DR-require-full", params: draft("require", policy("danger-full-access", nil)), kind: "linux-seccomp", script: looksDenied,
			exit: 1, denied: yes, host: []string{"+$OUT/n"}},
	}
	for i := range rows {
		rows[i].Reference = "the form is refused"
	}
	return rows
}

// merged returns the members of both objects.
func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// unknownEntry returns an entry that a newer client might send.
func unknownEntry() entry {
	return entry{"path": map[string]any{"type": "special", "value": map[string]any{"kind": "unknown", "path": ":newer"}}, "access": "write"}
}
