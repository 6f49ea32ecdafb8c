package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/sshhost"
)

// An address says how to reach a server: by a URL that it listens on, or by a command whose
// standard input and output lead to it. connect, if set, makes the connections instead.
type address struct {
	url     string
	command []string
	text    string // for errors, if it is a command: without passwords and arguments
	ssh     bool   // command is ssh, and its last word the command for the login shell
	connect func(context.Context) (net.Conn, error)
}

// The forms of an address that are commands.
const (
	schemeSSH  = "ssh://"
	schemeExec = "exec:"
)

// parseAddress reads the value of --url or TETHER_URL.
func parseAddress(text string) (address, error) {
	switch {
	case strings.HasPrefix(text, schemeExec):
		argv, err := splitWords(strings.TrimPrefix(text, schemeExec))
		if err == nil && len(argv) == 0 {
			err = errors.New("no command")
		}
		if err != nil {
			return address{}, fmt.Errorf("address of the server: %q: %w", text, err)
		}
		return address{command: argv, text: schemeExec + argv[0]}, nil
	case strings.HasPrefix(text, schemeSSH):
		argv, err := sshCommand(text)
		return address{command: argv, text: withoutPassword(text), ssh: true}, err
	case strings.HasPrefix(text, "unix://"):
		path, err := filepath.Abs(strings.TrimPrefix(text, "unix://"))
		return address{url: "unix://" + path}, err
	case strings.HasPrefix(text, "ws://"), strings.HasPrefix(text, "wss://"):
		return address{url: text}, nil
	}
	return address{}, fmt.Errorf("address of the server: %q is not ws://, wss://, unix://, ssh:// or exec:COMMAND", text)
}

// sshCommand returns the command that connects to the user's server on another machine. ssh must
// not ask for anything, because it runs again whenever the connection is lost. It ends within
// seconds if the network is dead.
func sshCommand(text string) ([]string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	if u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, fmt.Errorf("address of the server: %q is not ssh://[USER@]HOST[:PORT]", text)
	}
	argv := []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}
	if port := u.Port(); port != "" {
		argv = append(argv, "-p", port)
	}
	if name := u.User.Username(); name != "" {
		argv = append(argv, "-l", name)
	}
	return append(argv, "--", u.Hostname(), sshhost.Bridge(versionText())), nil
}

func (a address) transport(stderr *transportNotes) client.TransportCommand {
	cmd := client.TransportCommand{Name: a.text, Argv: a.command, Stderr: stderr}
	if a.ssh {
		cmd.SkipText, cmd.Refusal = true, sshhost.Missing
	}
	return cmd
}

// key tells servers apart, also for later versions of this program.
func (a address) key() string {
	if a.ssh {
		return a.text
	}
	return a.url + "\x00" + strings.Join(a.command, "\x00")
}

// withoutPassword returns a URL without its password.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = url.User(u.User.Username())
	return u.String()
}

// sshHost returns the destination of an ssh:// address as arguments for ssh, or "" for other addresses.
func (a address) sshHost() string {
	if !strings.HasPrefix(a.text, schemeSSH) {
		return ""
	}
	u, err := url.Parse(a.text)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	if name := u.User.Username(); name != "" {
		host = name + "@" + host
	}
	if port := u.Port(); port != "" {
		host = "-p " + port + " " + host
	}
	return host
}

// splitWords splits a command line at spaces, with quotes and backslashes as in a shell.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '\'' || c == '"':
			begun, quote = true, c
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			begun = true
			word.WriteRune(c)
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("%c is not closed", quote)
	case escaped:
		return nil, errors.New("a backslash at the end")
	case begun:
		words = append(words, word.String())
	}
	return words, nil
}
