package sandbox

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A User is the user of the server. Programs of that user listen on sockets outside of the
// sandbox and act for each client: terminal multiplexers, agents that hold keys, editors.
type User struct {
	ID   string // the number
	Name string // empty: unknown
	Home string // empty: unknown
	Env  []string
}

// maxUserSockets limits the number of hidden sockets and socket directories.
const maxUserSockets = 1024

// userSockets are the paths where these programs listen, by the kind of directory. USER
// and UID stand for the user, and a * for any part of a name. A path that ends with a
// slash is a directory that is hidden as a whole; all others must be sockets.
var userSockets = struct{ system, temporary, runtime, home []string }{
	system: []string{"run/screen/", "run/uscreens/"},
	temporary: []string{
		"tmux-UID/", "screens/", "uscreens/", "zellij-UID/", "kitty-*", // terminals
		"ssh-*/agent.*",                                                           // agents
		"emacsUID/", "nvim.USER/*/*", "nvim*/0", "vscode-*.sock", "cursor-*.sock", // editors
	},
	runtime: []string{
		"tmux-UID/", "zellij/", "wezterm/", "kitty-*",
		"gnupg/", "keyring/", "gcr/", "ssh-agent*", "openssh_agent", "yubikey-agent/", "ssh-*/agent.*",
		"emacs/", "nvim.*", "kakoune/", "vscode-*.sock", "cursor-*.sock",
	},
	home: []string{
		".screen/",
		".ssh/agent/", ".ssh/*", ".gnupg/S.*", ".1password/agent.sock",
		".emacs.d/server/", ".local/share/zed/*.sock",
	},
}

// socketVariables name a socket in their value, as a path up to the first comma.
var socketVariables = []string{"TMUX", "SSH_AUTH_SOCK", "KITTY_LISTEN_ON", "WEZTERM_UNIX_SOCKET", "NVIM", "NVIM_LISTEN_ADDRESS",
	"EMACS_SOCKET_NAME", "VSCODE_IPC_HOOK_CLI", "VSCODE_IPC_HOOK", "VSCODE_GIT_IPC_HANDLE"}

// addUserSockets hides the sockets of the user's programs, unless an entry names them, or
// everything may be written. An entry that makes a directory such as /tmp writable does
// not open the sockets in it.
func (b *binder) addUserSockets(policy *Policy) error {
	if b.process.User == nil || policy.FullWrite {
		return nil
	}
	h := &socketHider{binder: b, cwd: policy.Cwd}
	user := b.process.User
	envs := [][]string{user.Env, b.process.Env}
	bases := func(variables []string, usual ...string) []string {
		for _, env := range envs {
			for _, name := range variables {
				if dir := variable(env, name); path.IsAbs(dir) {
					usual = append(usual, path.Clean(dir))
				}
			}
		}
		slices.Sort(usual)
		return slices.Compact(usual)
	}
	h.hideBelow([]string{"/"}, userSockets.system)
	h.hideBelow(bases([]string{"TMPDIR", "TMUX_TMPDIR"}, "/tmp"), userSockets.temporary)
	h.hideBelow(bases([]string{"XDG_RUNTIME_DIR"}, "/run/user/"+user.ID), userSockets.runtime)
	if path.IsAbs(user.Home) {
		h.hideBelow([]string{path.Clean(user.Home)}, userSockets.home)
	}
	h.hideBelow(bases([]string{"SCREENDIR", "ZELLIJ_SOCKET_DIR"}), []string{"*"})
	for _, env := range envs {
		for _, name := range socketVariables {
			value, _, _ := strings.Cut(strings.TrimPrefix(variable(env, name), "unix:"), ",")
			if path.IsAbs(value) {
				h.hideSocket(path.Clean(value))
			}
		}
	}
	if h.hidden > maxUserSockets {
		return Unenforceable("more than %d sockets of this user would have to be hidden", maxUserSockets)
	}
	return nil
}

// variable returns the value of a variable in an environment.
func variable(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// A socketHider adds the rules for the sockets of a user.
type socketHider struct {
	*binder
	cwd    string
	hidden int
}

// hideBelow hides the matches of patterns in some directories.
func (h *socketHider) hideBelow(bases, patterns []string) {
	for _, base := range bases {
		at := h.finder.find(base)
		if !at.isDir() {
			continue
		}
		base = at.path
		for _, pattern := range patterns {
			if strings.Contains(pattern, "USER") {
				if h.process.User.Name == "" {
					continue
				}
				pattern = strings.ReplaceAll(pattern, "USER", h.process.User.Name)
			}
			pattern = strings.ReplaceAll(pattern, "UID", h.process.User.ID)
			name, directory := strings.CutSuffix(pattern, "/")
			for _, p := range h.expand(base, name) {
				if directory {
					h.hideDir(p)
				} else {
					h.hideSocket(p)
				}
			}
		}
	}
}

// expand returns the names that match a pattern below a directory. Names that another user
// has made in a shared directory, such as /tmp, are left out: they are not programs of this
// user, and the other user would choose where a link leads. Only a directory that the
// pattern names exactly is kept: the first user of screen makes it for all users.
func (h *socketHider) expand(base, pattern string) []string {
	first, rest, more := strings.Cut(pattern, "/")
	prefix, _, star := strings.Cut(first, "*")
	var names []string
	if !star {
		if s := h.finder.look(path.Join(base, first)); s.err == nil && (!more && s.mode.IsDir() || !h.foreign(base, first)) {
			names = []string{first}
		}
	} else {
		for _, e := range h.finder.list(base) {
			if !strings.HasPrefix(e.Name(), prefix) {
				continue // most names in /tmp
			}
			if ok, _ := path.Match(first, e.Name()); ok && !h.foreign(base, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	var found []string
	for _, name := range names {
		if p := path.Join(base, name); more {
			found = append(found, h.expand(p, rest)...)
		} else {
			found = append(found, p)
		}
	}
	return found
}

func (h *socketHider) foreign(dir, name string) bool {
	return h.finder.host.Foreign(path.Join(dir, name))
}

// hideDir hides a directory. It hides only the sockets in it if the command starts in
// the directory, if an entry opens something in it, or if it was found through a link
// that a command could have made.
func (h *socketHider) hideDir(p string) {
	at := h.finder.find(p)
	if !at.isDir() || h.open(at.path) {
		return
	}
	only := within(h.cwd, at.path) && h.cwd != ""
	for _, r := range h.rules.all {
		only = only || r.Origin == FromEntry && r.Access != Deny && below(r.Path, at.path)
	}
	for _, l := range at.links {
		only = only || h.rules.access(l.at) == Write
	}
	if !only {
		h.hide(p)
		return
	}
	for _, e := range h.finder.list(at.path) {
		h.hideSocket(path.Join(at.path, e.Name()))
	}
}

func (h *socketHider) hideSocket(p string) {
	if at := h.finder.find(p); at.exists() && at.mode.Type() == fs.ModeSocket && !h.open(at.path) {
		h.hide(p)
	}
}

// open reports whether nothing has to be hidden at a path: the path is denied anyway, or
// an entry makes exactly this path, or everything, writable.
func (h *socketHider) open(real string) bool {
	r := h.rules.decide(real)
	return r == nil || r.Access == Deny || r.Access == Write && (r.Path == real || r.Path == "/")
}

func (h *socketHider) hide(p string) {
	if h.hidden++; h.hidden <= maxUserSockets {
		h.add(p, Deny, FromControl, p)
	}
}
