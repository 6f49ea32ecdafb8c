//go:build mcp || fleet || !split

package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// tokenBytes is how much randomness a token has.
const tokenBytes = 32

func newToken() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   nameToken + " [flags] PATH",
		Short: shortToken,
		Long: "Write a new random token to a file that only you can read. The server is started with the file, and\n" +
			"clients use a copy of it.",
		Example: "  tether token token\n" +
			"  tether serve --listen wss://0.0.0.0:7443 --tls-cert cert.pem --tls-key key.pem \\\n" +
			"      --ws-auth capability-token --ws-token-file token\n" +
			"  tether run --url wss://HOST:7443 --tls-ca cert.pem --token-file token -- uname -a",
		Args:                  onePath,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := writeToken(args[0], force); err != nil {
				return fmt.Errorf("make token file %s: %w", args[0], err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: a new token, readable by you only\n", args[0])
			return err
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace a file that exists")
	return cmd
}

func onePath(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usageError{errors.New("the PATH of the token file is missing")}
	case 1:
		return nil
	}
	return usageError{fmt.Errorf("unexpected argument %q", args[1])}
}

func writeToken(path string, force bool) error {
	secret := make([]byte, tokenBytes)
	rand.Read(secret) // never fails
	return writeSecret(path, force, []byte(base64.RawURLEncoding.EncodeToString(secret)+"\n"))
}

// writeSecret writes a file that only this user can read. It always makes a new file, because a file that exists keeps its mode, and
// another process may have it open.
func writeSecret(path string, force bool, content []byte) error {
	if force {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return cause(err)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return errors.New("the file exists; --force replaces it")
	}
	if err != nil {
		return cause(err)
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
