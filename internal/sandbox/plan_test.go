package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

var update = flag.Bool("update", false, "write the golden plans")

// homeDev is a machine with a project, parts of which are hidden.
const homeDev = `/home/dev/project/.git/config /home/dev/project/main.go /home/dev/project/secrets/key
	/home/dev/project/x.env /home/dev/project/d/y.env /home/dev/project/d/deep/z.env
	/home/dev/private/diary /opt/data/ /tmp/ /usr/bin/sh /usr/lib/ /usr/sbin/ /etc/passwd
	/bin->usr/bin /sbin->usr/sbin /lib->usr/lib /proc/sys/ /proc/irq/ /proc/bus/ /proc/sysrq-trigger
	/dev/null /dev/shm/ /sys/kernel/ /run/docker.sock= /run/user/1000/bus= /var/run->/run
	/home/dev/.local/state/tether/server/`

func TestGoldenPlans(t *testing.T) {
	host := newHost(homeDev, "/home/dev/project/a/b/ /home/dev/project/a/k /home/dev/project/a/c/d/")
	dev := Process{
		Cwd: "/home/dev/project", Env: []string{"PATH=/bin", "TMPDIR=/tmp"},
		Private: []string{"/home/dev/.local/state/tether/server"}, Root: true,
	}
	captured := func(t *testing.T, name string) *wire.Sandbox {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var s wire.Sandbox
		if err := wire.Decode(text, &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	project := roots(t, "/home/dev/project")
	for name, intent := range map[string]*wire.Sandbox{
		"read-only":       intentOf(t, policyRO, project),
		"workspace-write": captured(t, "workspace-write.json"),
		"named-profile":   captured(t, "named-profile.json"),
		"nested": intentOf(t, "read root, write /home/dev/project, deny /home/dev/project/a, "+
			"write /home/dev/project/a/b, read /home/dev/project/a/c/d", project),
		"minimal":      intentOf(t, policyMR, project),
		"root-write":   intentOf(t, policyRW+", deny /home/dev/private", project, network),
		"full-write":   intentOf(t, policyRW, project),
		"unrestricted": intentOf(t, "", unrestricted, network),

		"managed":              intentOf(t, policyWN, project, network),
		"managed-unrestricted": intentOf(t, "", unrestricted, network),
	} {
		t.Run(name, func(t *testing.T) {
			process := dev
			process.EnforceManagedNetwork = strings.HasPrefix(name, "managed")
			_, plan, err := compiled(host, intent, process)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".plan")
			if *update {
				if err := os.WriteFile(file, []byte(plan.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if plan.String() != string(want) {
				t.Errorf("got\n%v\nwant\n%s", plan, want)
			}
		})
	}
}

// A restricted path that exists is guarded if names around it can be created
// and removed, and no other path is.
func TestGuard(t *testing.T) {
	host := newHost(homeDev, "/home/dev/project/a/b/ /home/dev/project/a/c/d/ /home/dev/project/file")
	intent := intentOf(t, "read root, deny /home/dev/private, write /home/dev/project, deny /home/dev/project/a, "+
		"write /home/dev/project/a/b, read /home/dev/project/a/c/d, deny /home/dev/project/x.env, "+
		"deny /home/dev/project/file/below, deny /home/dev/project/secrets/key, deny /home/dev/project/missing", roots(t, "/home/dev/project"))
	_, plan, err := compiled(host, intent, Process{Cwd: "/home/dev/project"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, op := range plan.Ops {
		if op.Guard {
			got = append(got, op.Kind.String()+" "+strings.TrimPrefix(op.Path, "/home/dev/project/"))
		}
	}
	want := "bind-ro .git, mask-dir a, pin file, pin secrets, mask-file secrets/key, mask-file x.env"
	if strings.Join(got, ", ") != want {
		t.Errorf("guarded: %q, want %q, in\n%v", got, want, plan)
	}
}

// BenchmarkCompile measures the time that a start spends on its sandbox before
// a backend runs.
func BenchmarkCompile(b *testing.B) {
	dir := b.TempDir()
	intent := intentOf(b, policyWW, roots(b, dir))
	for b.Loop() {
		policy, err := Bind(intent, Process{Cwd: dir, Env: []string{"TMPDIR=/tmp"}}, OS{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := policy.Compile(); err != nil {
			b.Fatal(err)
		}
	}
}
