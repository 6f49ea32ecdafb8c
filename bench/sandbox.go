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
	)
}

func sandboxedStarts(t *trial, row, workspace string, entries []object) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	here := "file://" + workspace
	sandbox := object{"sandbox": object{
		"permissions": object{"type": "managed", "network": "restricted",
			"file_system": object{"type": "restricted", "entries": entries}},
		"cwd": here, "workspaceRoots": []string{here}, "windowsSandboxLevel": "disabled",
	}}
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
