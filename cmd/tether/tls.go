package main

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tlsFlags say which certificates a client trusts, and which it shows, on wss:// connections.
type tlsFlags struct{ ca, cert, key string }

func (f *tlsFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.ca, "tls-ca", "", "`PATH` of certificates (PEM) to trust for a wss:// server, instead of\nthose of this machine")
	fs.StringVar(&f.cert, "tls-cert", "", "`PATH` of the client's certificate (PEM), for a server that asks for one")
	fs.StringVar(&f.key, "tls-key", "", "`PATH` of its private key (PEM)")
}

// config returns nil if no flag was given.
func (f *tlsFlags) config() (*tls.Config, error) {
	switch {
	case *f == tlsFlags{}:
		return nil, nil
	case (f.cert == "") != (f.key == ""):
		return nil, usageError{errors.New("--tls-cert and --tls-key must be given together")}
	}
	config := &tls.Config{}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca %s: %w", f.ca, cause(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca %s: the file has no certificate in PEM form", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", f.cert, f.key, cause(err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// warnReadable warns about a secret file that other users can read.
func warnReadable(stderr io.Writer, path string) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		printLine(stderr, fmt.Sprintf("warning: other users can read %s; run: chmod 600 %s", path, path))
	}
}

// tokenBytes is how much randomness a token has.
const tokenBytes = 32

func newToken() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "token [flags] PATH",
		Short: "Make a token file for a server and its clients",
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
