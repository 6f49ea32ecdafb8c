package conformance

import (
	"strings"
	"testing"
)

// A confined command cannot make a set-user-id or set-group-id file. Another user of the machine could execute it.
func TestAdversarySetID(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		o := s.output(t, c.policy, `$ADV setid $WS; chmod u+s $ADV; install -m 4755 $ADV $WS/copy; cp -p $ADV $WS/copy`)
		wants(t, fx, o, []string{`^chmod suid: EPERM$`, `^openat both: EPERM$`, `^fchmodat2 sgid: EPERM$`, `^openat2 suid: ENOSYS$`, `^chmod: .*` + textPERM}, "GIVEN", ": ok$")
		if n := strings.Count(o.stdout, ": E"); n != 39 {
			t.Errorf("%d of 39 ways are refused", n)
		}
		fx.intact(t)
	})
}

// Without a sandbox, or if all files are writable, each way works, so the test above can fail.
func TestAdversarySetIDUnconfined(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		for name, p := range map[string]policy{"unconfined": unconfined(), "all files": rootWrite()} {
			o := s.output(t, p, `$ADV setid $WS`)
			if n := strings.Count(o.stdout, "GIVEN"); n != 39 && !strings.Contains(o.stdout, "fchmodat2 suid: ENOSYS") {
				t.Errorf("%s: %d of 39 ways work: %s", name, n, o.stdout)
			}
			fx.intact(t)
		}
	})
}

// Programs that set ordinary modes work as without a sandbox.
func TestModesOfOrdinaryPrograms(t *testing.T) {
	const script = `set -e; cd $WS/sub; umask 022
mkdir -p -m 700 d/e; echo x > d/e/f; chmod 755 d; chmod u+x,go-r d/e/f; chmod 1777 d/e; ln -s f d/e/l
cp -p d/e/f d/e/copy; cp -a d d2; cp -r --preserve=all d d3; install -m 755 d/e/f d/installed; install -d -m 750 d/made
tar cf t.tar d; mkdir x; tar xf t.tar -C x; tar xpf t.tar -C x --overwrite; tar xf t.tar -C x --no-same-permissions --overwrite
git init -q repo; cd repo; git config user.email a@b; git config user.name n; echo 1 > a; chmod +x a; git add a; git commit -qm one; git clone -q . ../clone; cd ..
test -x clone/a; mktemp -p .; touch n; mkfifo p; rm -rf x d2 d3 clone repo
echo all of it`
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		if c.name == "minimal" {
			t.Skip("git needs files that this policy hides")
		}
		fx, s := attackServer(t, a)
		o := s.output(t, c.policy, script)
		wants(t, fx, o, []string{"^all of it$"}, textPERM)
	})
}

// In a directory with the set-group-ID bit, new directories get that bit from the kernel,
// without a system call that asks for it.
func TestModesOfSharedDirectories(t *testing.T) {
	const script = `cd $WS/shared; mkdir -p a/b && cp -r a c && tar cf t.tar a && mkdir x && { tar xf t.tar -C x || test $(id -u) = 0; } && git init -q repo && touch a/f && stat -c %a a/b && echo all of it
chmod 2770 a; chmod g-s a/b && echo removed`
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a, func(fx *fixture) { fx.mkdir("$WS/shared") })
		hostCommand(t, fx, "chmod", "2775", fx.ws+"/shared")
		o := s.output(t, workspaceOnly(), script)
		wants(t, fx, o, []string{"^2755$|^2775$", "^all of it$", "^chmod: .*" + textPERM, "^removed$"})
	})
}
