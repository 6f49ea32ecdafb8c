//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// sandboxed measures commands that end at once, in the two usual sandboxes.
func sandboxed(t *trial) error {
	workspace := filepath.Join(t.dir, "workspace")
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		return err
	}
	entry := func(kind, access string) object {
		return object{"path": object{"type": "special", "value": object{"kind": kind}}, "access": access}
	}
	readOnly := []object{entry("root", "read")}
	writable := append(readOnly, entry("project_roots", "write"), entry("slash_tmp", "write"), entry("tmpdir", "write"))
	return errors.Join(
		sandboxedStarts(t, "sandboxro", workspace, readOnly),
		sandboxedStarts(t, "sandboxww", workspace, writable),
		sandboxesInFlight(t, workspace, writable),
		firstConfinedReads(t, workspace, readOnly),
	)
}

// inSandbox returns the parameter of a request that asks for a sandbox.
func inSandbox(workspace string, entries []object) object {
	here := "file://" + workspace
	return object{"sandbox": object{
		"permissions": object{"type": "managed", "network": "restricted",
			"file_system": object{"type": "restricted", "entries": entries}},
		"cwd": here, "workspaceRoots": []string{here}, "windowsSandboxLevel": "disabled",
	}}
}

func sandboxedStarts(t *trial, row, workspace string, entries []object) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	sandbox := inSandbox(workspace, entries)
	n := t.amount(40)
	own, children, err := t.cpu()
	if err != nil {
		return err
	}
	for i := range warmUp + n {
		took, err := runTrue(c, row+strconv.Itoa(i), sandbox)
		if err != nil {
			return err
		}
		if i >= warmUp {
			t.took(row, took, time.Millisecond)
		}
	}
	own2, children2, err := t.cpu()
	t.took(row+"cpu", (own2+children2-own-children)/time.Duration(warmUp+n), time.Millisecond)
	return err
}

// sandboxesInFlight measures starts of which 16 are under way at a time.
func sandboxesInFlight(t *trial, workspace string, entries []object) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	rate, err := startsPerSecond(c, t.amount(160), 16, inSandbox(workspace, entries))
	t.add("sandboxrate", rate)
	return err
}

// firstConfinedReads measures file requests for whose sandbox the server has no helper yet.
func firstConfinedReads(t *trial, workspace string, entries []object) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	for i := range warmUp + t.amount(20) {
		dir := filepath.Join(workspace, "first"+strconv.Itoa(i))
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)); err != nil {
			return err
		}
		denied := object{"path": object{"type": "path", "path": "file://" + dir + "/none"}, "access": "deny"} // differs from all others
		params := inSandbox(dir, append(entries[:len(entries):len(entries)], denied))
		params["path"] = "file://" + dir + "/file"
		began := time.Now()
		request, err := c.send("fs/readFile", params)
		if err == nil {
			_, err = c.until(func(m message) bool { return m.ID == request })
		}
		if err != nil {
			return err
		}
		if i >= warmUp {
			t.took("sandboxread", time.Since(began), time.Millisecond)
		}
	}
	return nil
}

// plainSandbox is the limit of the machine: bubblewrap around /bin/true, without a server.
func plainSandbox(work *benchEnv, r recorder) error {
	for range work.amount(40) {
		cmd := exec.Command("bwrap", "--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
			"--unshare-user", "--unshare-pid", "--unshare-net", "--proc", "/proc", "--", "/bin/true")
		cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
		began := time.Now()
		if err := cmd.Run(); err != nil {
			return err
		}
		took := time.Since(began)
		r.took("sandboxro", took, time.Millisecond)
		r.took("sandboxww", took, time.Millisecond)
	}
	return nil
}
