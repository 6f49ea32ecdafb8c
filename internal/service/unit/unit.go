// Package unit writes the unit files with which systemd runs a tether server. No I/O.
package unit

import (
	"cmp"
	"fmt"
	"strings"
)

// The names of the unit files.
const (
	Service = "tether.service"
	Socket  = "tether.socket"
)

// Mark is in the first line of each file. A file without it was not written by tether, so it is neither replaced nor removed.
const Mark = "# Written by `tether service install`."

// Options say how the server runs.
type Options struct {
	Program string   // path of tether
	User    bool     // a unit of one user, not of the system
	RunAs   string   // the user of a system unit
	Listen  string   // --listen of the server; "": the socket of a socket unit
	Args    []string // further arguments of `tether serve`
	Mark    string   // the first line of the files; "": Mark
}

// File is a unit file.
type File struct{ Name, Text string }

// Files returns the unit files.
func (o Options) Files() []File {
	files := []File{{Service, o.service()}}
	if o.Listen == "" {
		files = append(files, File{Socket, o.socket()})
	}
	return files
}

// Start is the unit that has to be enabled.
func (o Options) Start() string {
	if o.Listen == "" {
		return Socket
	}
	return Service
}

// service has no settings such as ProtectSystem=, ProtectProc= or NoNewPrivileges=: commands get the rights of their user, and the
// kernel refuses the namespaces of a sandbox to a process whose /proc is partly hidden.
func (o Options) service() string {
	listen := o.Listen
	if listen == "" {
		listen = "systemd"
	}
	words := []string{quoted(literal(o.Program))}
	for _, word := range append([]string{"serve", "--listen", listen}, o.Args...) {
		words = append(words, argument(word))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n[Unit]\nDescription=tether, which runs commands for clients on other machines\nDocumentation=https://github.com/tetherexec/tether\n", o.mark())
	if o.Listen == "" {
		fmt.Fprintf(&b, "Requires=%s\nAfter=%[1]s\n", Socket)
	}
	if !o.User {
		b.WriteString("Wants=network-online.target\nAfter=network-online.target\n")
	}
	fmt.Fprintf(&b, `
[Service]
Type=notify
ExecStart=%s
# SIGHUP: settings, tokens and certificates are read again, or a new version of the program takes over. Commands run on.
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=1
WatchdogSec=1min
# At the end tether itself ends its commands; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=30
# A command that takes too much memory is killed alone.
OOMPolicy=continue
# tether makes a control group for each command, for limits and accounts.
Delegate=yes
TasksMax=infinity
LimitNOFILE=524288
# The rights of commands are those of the user. Settings such as ProtectSystem=, PrivateDevices=, ProtectKernelTunables= or
# NoNewPrivileges= would be in force for every command, and some of them make sandboxes impossible.
RestrictRealtime=yes
LockPersonality=yes
`, strings.Join(words, " "))
	if !o.User {
		fmt.Fprintf(&b, "User=%s\nStateDirectory=tether\nStateDirectoryMode=0700\nRuntimeDirectory=tether\nRuntimeDirectoryMode=0755\nRuntimeDirectoryPreserve=yes\n", literal(o.RunAs))
	}
	fmt.Fprintf(&b, "\n[Install]\nWantedBy=%s\n", o.target("multi-user.target", "default.target"))
	return b.String()
}

func (o Options) socket() string {
	owner := ""
	if !o.User {
		owner = "SocketUser=" + literal(o.RunAs) + "\n"
	}
	return fmt.Sprintf(`%s
[Unit]
Description=Socket of tether, which runs commands for clients on other machines

[Socket]
ListenStream=%%t/tether/server.sock
# Each client that can connect can run commands as the user of the server.
SocketMode=0600
DirectoryMode=%s
%s
[Install]
WantedBy=sockets.target
`, o.mark(), o.target("0755", "0700"), owner)
}

func (o Options) mark() string { return cmp.Or(o.Mark, Mark) }

// target returns the value for a unit of the system, or of a user.
func (o Options) target(system, user string) string {
	if o.User {
		return user
	}
	return system
}

// literal writes a text so that systemd reads it unchanged: it replaces %. This is all for the name of a user, which has no quotes.
func literal(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// argument writes an argument of a command so that systemd reads it unchanged. It also replaces $, except in the path of the program.
func argument(word string) string { return quoted(strings.ReplaceAll(literal(word), "$", "$$")) }

// quoted writes a word of a command line, which systemd splits at spaces.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("\"'\\;#", r)
	}) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(word) + `"`
}
