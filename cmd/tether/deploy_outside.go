//go:build split && !mcp && !fleet

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// copyToHost copies tether to the machine of an ssh:// address, which the companion does. file is the program, or "".
func copyToHost(ctx context.Context, a address, file string) (path string, copied bool, err error) {
	companion, err := withMCP.find("run --url " + schemeSSH)
	if err != nil {
		return "", false, errors.New(a.text + " has no tether, and the program that copies it, tether-mcp, is neither in the directory of tether nor in PATH;\n" +
			"install it from the same release, or tether on that machine")
	}
	cmd := exec.CommandContext(ctx, companion, prefixCompanion, versionText(), deployCommand, a.text, file)
	var why bytes.Buffer
	cmd.Stdout, cmd.Stderr = &why, os.Stderr
	err = cmd.Run()
	switch text := strings.TrimSpace(why.String()); {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil && text != "":
		err = errors.New(text)
	case err != nil:
		err = fmt.Errorf("%s: %w", companion, err)
	}
	return "", err == nil, err
}

func deployFor([]string, io.Writer) error { return errors.New("this program copies nothing") }
