package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// userMachine is a machine on which a user works.
const userMachine = `/home/ann/.gnupg/S.gpg-agent= /home/ann/.gnupg/pubring.kbx /home/ann/.ssh/id /home/ann/.ssh/mux= /home/ann/.ssh/agent/s=
	/home/ann/.screen/ /home/ann/.local/share/zed/zed.sock= /home/ann/.emacs.d/server/server /home/ann/.emacs.d/init.el
	/tmp/tmux-1000/default= /tmp/tmux-1001/default= /tmp/ssh-aB/agent.7= /tmp/ssh-aB/notes /tmp/ssh-keys/agent.txt /tmp/emacs1000/server=
	/tmp/nvim.ann/x/0= /tmp/nvim.ann/x/log /tmp/vscode-ipc-1.sock= /tmp/vscode-list /tmp/other= /tmp/screens/S-ann/1=
	/run/user/1000/gnupg/S.gpg-agent= /run/user/1000/keyring/ssh= /run/user/1000/nvim.7.0= /run/user/1000/pipewire=
	/run/user/1000/ssh-agent.socket= /run/user/1001/gnupg/S.gpg-agent= /run/screen/S-ann/2= /run/user/1000/bus=
	/mine/tmux-1000/x= /mine/run/gcr/ssh= /mine/agent= /mine/agent-link->/mine/agent /mine/nvim= /mine/mux= /mine/dir/zellij= /mine/file`

var ann = User{ID: "1000", Name: "ann", Home: "/home/ann"}

func TestUserSockets(t *testing.T) {
	for _, row := range []struct {
		id      string
		entries string
		options []intentOption
		process Process
		host    string // beside userMachine
		want    string
	}{
		{id: "read-only", entries: policyRO, options: []intentOption{network}, want: `-/tmp/tmux-1000/default -/tmp/ssh-aB/agent.7 r/tmp/ssh-aB/notes
			r/tmp/ssh-keys/agent.txt -/tmp/emacs1000/server -/tmp/nvim.ann/x/0 r/tmp/nvim.ann/x/log -/tmp/vscode-ipc-1.sock r/tmp/vscode-list r/tmp/other
			-/tmp/screens/S-ann/1 -/run/screen/S-ann/2 -/run/user/1000/gnupg/S.gpg-agent -/run/user/1000/keyring/ssh -/run/user/1000/nvim.7.0
			-/run/user/1000/ssh-agent.socket r/run/user/1000/pipewire -/run/user/1000/bus -/home/ann/.gnupg/S.gpg-agent r/home/ann/.gnupg/pubring.kbx r/home/ann/.ssh/id
			-/home/ann/.ssh/mux -/home/ann/.ssh/agent/s -/home/ann/.local/share/zed/zed.sock -/home/ann/.emacs.d/server/server r/home/ann/.emacs.d/init.el`},
		{id: "other users are not this one's", entries: policyRO, options: []intentOption{network}, want: "r/tmp/tmux-1001/default r/run/user/1001/gnupg/S.gpg-agent"},
		{id: "without network", entries: policyRO, want: "r/tmp/tmux-1000/default r/home/ann/.gnupg/S.gpg-agent"},
		{id: "a writable /tmp does not open them", entries: policyWW, options: []intentOption{network}, want: "-/tmp/tmux-1000/default -/tmp/ssh-aB/agent.7 w/tmp/ssh-aB/n w/tmp/other w/tmp/x"},
		{id: "all is writable", entries: policyRW + ", deny /fx/out", options: []intentOption{network}, want: "w/tmp/tmux-1000/default w/home/ann/.gnupg/S.gpg-agent"},
		{id: "unrestricted", options: []intentOption{network, unrestricted}, want: "w/tmp/tmux-1000/default"},
		{id: "an entry for the socket", entries: policyWW + ", write /tmp/ssh-aB/agent.7, write /run/user/1000/ssh-agent.socket", options: []intentOption{network},
			want: "w/tmp/ssh-aB/agent.7 w/run/user/1000/ssh-agent.socket -/tmp/tmux-1000/default"},
		{id: "an entry for the directory", entries: policyWW + ", write /tmp/tmux-1000", options: []intentOption{network}, want: "w/tmp/tmux-1000/default -/tmp/emacs1000/server"},
		{id: "an entry for one of several", entries: policyWW + ", write /tmp/tmux-1000/default", host: "/tmp/tmux-1000/b=", options: []intentOption{network},
			want: "w/tmp/tmux-1000/default -/tmp/tmux-1000/b w/tmp/tmux-1000/c"},
		{id: "an entry to read", entries: policyRO + ", read /tmp/ssh-aB/agent.7", options: []intentOption{network}, want: "-/tmp/ssh-aB/agent.7"},
		{id: "the cwd is among them", entries: policyRO, host: "/tmp/tmux-1000/sub/", process: Process{Cwd: "/tmp/tmux-1000/sub"}, options: []intentOption{network},
			want: "-/tmp/tmux-1000/default r/tmp/tmux-1000/sub/x"},
		{id: "a link of another user", entries: policyRO, host: "~/tmp/uscreens->/usr ~/tmp/zellij-1000->/fx/ws ~/tmp/kitty-1->/fx/ws/s /fx/ws/s=", options: []intentOption{network},
			want: "r/usr r/fx/ws r/fx/ws/s -/tmp/tmux-1000/default"},
		{id: "a directory of another user", entries: policyRO, host: "~/tmp/uscreens/ /tmp/uscreens/S-ann/3= ~/tmp/ssh-x/ /tmp/ssh-x/agent.1=", options: []intentOption{network},
			want: "-/tmp/uscreens/S-ann/3 r/tmp/ssh-x/agent.1"},
		{id: "a link that a command could have made", entries: policyWW, host: "/tmp/uscreens->/usr /tmp/zellij-1000->/mine", options: []intentOption{network},
			want: "r/usr r/mine/file -/mine/agent"},
		{id: "our own link", entries: policyWW, host: "/mine/home/.emacs.d->/mine/dots /mine/dots/server/server", process: Process{User: &User{ID: "1000", Home: "/mine/home"}},
			options: []intentOption{network}, want: "-/mine/dots/server/server"},
		{id: "hidden anyway", entries: policyMR, options: []intentOption{network}, want: "p/home/ann/.gnupg/S.gpg-agent"},
		{id: "variables of the server", entries: policyRO, options: []intentOption{network}, process: Process{User: &User{ID: "1000", Env: []string{
			"TMUX_TMPDIR=/mine", "XDG_RUNTIME_DIR=/mine/run/", "SSH_AUTH_SOCK=/mine/agent-link", "NVIM=/mine/nvim", "TMUX=/mine/mux,77,0", "ZELLIJ_SOCKET_DIR=/mine/dir", "KITTY_LISTEN_ON=unix:/mine/file"}}},
			want: "-/mine/tmux-1000/x -/mine/run/gcr/ssh -/mine/agent -/mine/nvim -/mine/mux -/mine/dir/zellij r/mine/file"},
		{id: "variables of the command", entries: policyRO, options: []intentOption{network}, process: Process{Cwd: "/fx/ws", Env: []string{"TMPDIR=/mine", "SSH_AUTH_SOCK=/mine/agent"}},
			want: "-/mine/tmux-1000/x -/mine/agent r/mine/nvim"},
		{id: "variables that name anything else", entries: policyRO, options: []intentOption{network}, process: Process{Cwd: "/fx/ws", Env: []string{"SSH_AUTH_SOCK=/", "SCREENDIR=/", "TMUX=x", "NVIM=/mine"}},
			want: "r/mine/nvim r/fx/ws"},
	} {
		t.Run(strings.ReplaceAll(row.id, " ", "_"), func(t *testing.T) {
			if row.process.User == nil {
				row.process.User = &ann
			}
			host := newHost(fixture, userMachine, row.host)
			_, plan, err := compiled(host, intentOf(t, row.entries, row.options...), row.process)
			if err != nil {
				t.Fatal(err)
			}
			code := map[Effect]string{Hidden: "-", Private: "p", HostReadable: "r", HostWritable: "w"}
			for want := range strings.FieldsSeq(row.want) {
				if got := code[plan.Effect(want[1:])]; got != want[:1] {
					t.Errorf("%s: got %s, want %s in\n%v", want[1:], got, want[:1], plan)
				}
			}
			row.process.User = nil // --user-sockets
			_, plan, err = compiled(host, intentOf(t, row.entries, row.options...), row.process)
			if err != nil || strings.Contains(plan.String(), "tmux") && !strings.Contains(row.entries, "tmux") && !strings.Contains(plan.Cwd, "tmux") {
				t.Errorf("not hidden, but %v %v", plan, err)
			}
		})
	}
}

// Another user can make any number of sockets in /tmp. They are not sockets of this user,
// so they do not prevent commands from starting.
func TestManySocketsOfAnotherUser(t *testing.T) {
	var words strings.Builder
	for i := range maxUserSockets + 1 {
		fmt.Fprintf(&words, "~/tmp/vscode-%d.sock= ~/tmp/nvim.ann/ /tmp/nvim.ann/x/%d= ", i, i)
	}
	_, plan, err := compiled(newHost(fixture, words.String()), intentOf(t, policyRO, network), Process{Cwd: "/fx/ws", User: &ann})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Effect("/tmp/vscode-0.sock"); got != HostReadable {
		t.Errorf("a socket of another user is %v", got)
	}
}

func TestTooManyUserSockets(t *testing.T) {
	var words strings.Builder
	for i := range maxUserSockets + 1 {
		fmt.Fprintf(&words, "/tmp/vscode-%d.sock= ", i)
	}
	_, _, err := compiled(newHost(fixture, words.String()), intentOf(t, policyRO, network), Process{Cwd: "/fx/ws", User: &ann})
	if err == nil || !strings.Contains(err.Error(), "more than 1024 sockets of this user would have to be hidden") {
		t.Error(err)
	}
}

// A listErrorHost cannot list one directory.
type listErrorHost struct {
	memHost
	dir string
	err error
}

func (h listErrorHost) ReadDir(dir string) ([]fs.DirEntry, error) {
	if dir == h.dir {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: h.err}
	}
	return h.memHost.ReadDir(dir)
}

// If a directory cannot be listed, the sockets in it are unknown, so no command may start.
func TestUnlistedDirectoryIsRefused(t *testing.T) {
	for _, row := range []struct {
		dir     string
		err     error
		refused bool
	}{
		{"/tmp", syscall.EMFILE, true}, {"/run/user", syscall.EIO, true},
		{"/tmp", syscall.EACCES, false}, {"/tmp", syscall.ENOENT, false}, {"/none", syscall.EMFILE, false},
	} {
		host := listErrorHost{newHost(fixture, userMachine), row.dir, row.err}
		_, err := Bind(intentOf(t, policyRO, network), Process{User: &ann}, host)
		if _, unenforceable := errors.AsType[*UnenforceableError](err); unenforceable != row.refused || row.refused && !errors.Is(err, row.err) {
			t.Errorf("%s, %v: %v", row.dir, row.err, err)
		}
	}
}
