package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/shellword"
	"github.com/tetherexec/tether/internal/sshhost"
	"github.com/tetherexec/tether/internal/statedir"
)

// An advisedError says what the user can do about an error.
type advisedError struct {
	error
	text string // the error with the advice
}

func (e *advisedError) Error() string { return e.text }
func (e *advisedError) Unwrap() error { return e.error }

// advise adds what the user can do about a connection that could not be made, with the
// flags of this program.
func (f *serverFlags) advise(a address, err error) error {
	if host := a.sshHost(); host != "" {
		if text := sshAdvice(a.text, host, err); text != "" {
			return &advisedError{err, text}
		}
	}
	if text := f.advice(a, err); text != "" {
		return &advisedError{err, err.Error() + "; " + text}
	}
	return err
}

// Exit codes that ssh and the shell behind it use for themselves.
const (
	sshNotExecutable = 126 // the shell there could not execute the program
	sshFailed        = 255 // ssh did not connect
)

// sshAdvice returns the whole text of an error of ssh with its advice, or "" if there is no advice.
func sshAdvice(address, host string, err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	_, bridge := errors.AsType[*client.CommandError](err) // else tether was being copied
	switch {
	case ok && bridge && exit.ExitCode() == sshhost.Missing:
		return "cannot connect to " + address + ": there is no tether on that machine; copy it there by leaving out --no-deploy, or install it, so that `ssh " + host + " tether version` works"
	case ok && bridge && exit.ExitCode() == sshNotExecutable:
		return err.Error() + "; the tether on that machine cannot be executed: replace it or remove it"
	case ok && exit.ExitCode() == sshFailed:
		return err.Error() + "; `ssh " + host + " true` must work without asking anything"
	}
	return ""
}

// advice says what the user can do about an error; it is empty if there is no advice.
func (f *serverFlags) advice(a address, err error) string {
	if e, ok := errors.AsType[*client.UpgradeError](err); ok && e.Status == 401 {
		switch {
		case strings.HasPrefix(e.Text, "missing "):
			return "name the file that holds it with --token-file, or set " + envToken
		case f.tokenFile != "":
			return "--token-file " + f.tokenFile + " must hold a token that the server accepts"
		}
		return envToken + " must be a token that the server accepts"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "name a file with the certificate, or with that of its authority, with --tls-ca"
	}
	dial, ok := errors.AsType[*client.DialError](err)
	switch {
	case ok && strings.Contains(dial.Error(), "requires a certificate"):
		return "give one with --tls-cert and --tls-key"
	case ok && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)):
		return startOne(a.url)
	case errors.Is(err, exec.ErrNotFound):
		return "is it installed?"
	case a.command == nil:
		return keeperNotice()
	}
	return ""
}

// keeperNotice is what the keepers of this user report: a server whose workers cannot start accepts connections, and does not
// answer.
func keeperNotice() string {
	dir, err := statedir.Default()
	if err != nil {
		return ""
	}
	if notices := statedir.Notices(dir); len(notices) > 0 {
		return "a keeper of this user reports: " + strings.Join(notices, "; ")
	}
	return ""
}

// startOne says how to start a server that listens at an address.
func startOne(url string) string {
	l, err := listen.ParseURL(url)
	if err != nil || l.TLS { // a host name, or TLS, which needs more flags than the address
		return "start one with `tether serve`"
	}
	return "start one with `tether serve --listen " + url + "`"
}

// commandLine returns a command for the same server, for hints. The user can paste it into a shell.
func (f *serverFlags) commandLine(words ...string) string {
	for _, given := range []struct{ flag, value string }{
		{"--url", f.url}, {"--token-file", f.tokenFile}, {"--tls-ca", f.tls.ca}, {"--tls-cert", f.tls.cert}, {"--tls-key", f.tls.key},
	} {
		if given.value != "" {
			words = append(words, given.flag, given.value)
		}
	}
	return "`tether " + shellword.Join(words) + "`"
}

// A transportNotes shows the standard error of a transport command, such as ssh, until the
// connection is open; later, the status line shows the state of the connection. The last line
// is held back, because it is part of the error if the connection fails.
type transportNotes struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte
}

// maxHeld is how much of a last line is held back.
const maxHeld = 4 << 10

func (n *transportNotes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.to == nil {
		return len(b), nil
	}
	text := append(n.held, b...)
	last := bytes.LastIndexByte(bytes.TrimRight(text, "\r\n"), '\n') + 1
	if len(text)-last > maxHeld {
		last = len(text)
	}
	n.to.Write(text[:last])
	n.held = append([]byte(nil), text[last:]...)
	return len(b), nil
}

// silence stops showing lines. It first shows the line that was held back, unless err has it.
func (n *transportNotes) silence(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, told := errors.AsType[*client.CommandError](err)
	if !told || e.Said == "" {
		n.to.Write(n.held)
	}
	n.to, n.held = nil, nil
}
