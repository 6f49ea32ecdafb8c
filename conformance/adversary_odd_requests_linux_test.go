package conformance

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// floodText prints 2.6 MB, more than the verdict takes into account.
const floodText = `head -c 2600000 /dev/zero | tr '\0' x; `

// Large output arrives complete, and the verdict depends on its end.
func TestAdversaryFlood(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		_, s := attackServer(t, a)
		for _, f := range []struct {
			name, script string
			exit         int
		}{
			{"early", `echo Read-only file system; ` + floodText + floodText + `exit 3`, 3},
			{"late", floodText + floodText + `echo Read-only file system; exit 3`, 3},
			{"late-error", floodText + floodText + `echo x > $OUT/n`, 2},
			{"success", `echo Operation not permitted; ` + floodText + floodText + `true`, 0},
		} {
			o := s.output(t, workspaceOnly(), f.script)
			if len(o.all) < 5_200_000 || o.exit != f.exit || !o.deniedSaid {
				t.Errorf("%s: %d bytes, exit %d, verdict %v", f.name, len(o.all), o.exit, o.deniedSaid)
			}
			if want := strings.HasPrefix(f.name, "late"); o.denied != want {
				t.Errorf("%s: denied %v", f.name, o.denied)
			}
		}
	})
}

// A command that removes or changes its own surroundings harms only itself.
func TestAdversaryChangesItsSurroundings(t *testing.T) {
	held := func(fx *fixture) {
		fx.write("$WS/x/y/secret", keyText)
		fx.write("$WS/.git/config", "c\n")
	}
	policy := workspaceOnly().deny("$WS/x/y/secret")
	eachAccount(t, func(t *testing.T, a *account) {
		notForReference(t, "it is not attacked")
		for _, m := range []struct {
			name, script string
			exit         int
			out, not     []string
		}{
			{"close-stdio", `exec <&- >&- 2>&-; echo x > $WS/made; sleep 0.1; exit 6`, 6, nil, nil},
			{"close-and-linger", `echo said; exec >&- 2>&-; exit 5`, 5, []string{"^said$"}, nil},
			{"deleted-program", `cp /bin/sh s; ./s -c 'rm s; exec /proc/self/exe -c "echo again; exit 8"'`, 8, []string{"^again$"}, nil},
			{"deleted-tether", `cat /proc/1/exe > /dev/null; rm -f $TETHER; (echo x > $TETHER); $PROBE ok && echo works`, 0, []string{"^works$"}, nil},
			{"deleted-cwd", `mkdir gone; cd gone; rmdir ../gone; pwd; /bin/echo here; exit 9`, 9, []string{"^here$"}, nil},
			{"chmod-root", `chmod 000 $WS; chmod 000 .; exit 3`, 3, nil, nil},
			{"rename-children", `mv x z; mv .git .g; mv $WS $WS.moved; mv sub sub2 && ls -d sub2; mv sub2 sub; cat x/y/secret z/y/secret; exit 1`, 1, []string{textBUSY, "^sub2$"}, []string{keyText}},
			{"unlink-pinned", `rm -rf x .git; ls x/y; rmdir x/y x; cat x/y/secret; exit 1`, 1, []string{textBUSY, "^secret$"}, []string{keyText}},
			{"replace-pinned", `mkdir n; echo mine > n/config; $PROBE rename n .git; mv -T n x; mv -T n .git; cat .git/config; exit 1`, 1, []string{"^c$"}, []string{"^ok$", "^mine$"}},
		} {
			t.Run(m.name, func(t *testing.T) {
				fx, s := attackServer(t, a, held)
				o := s.output(t, policy, m.script)
				fx.check(os.Chmod(fx.ws, 0o755))
				if o.exit != m.exit {
					t.Errorf("exit %d, want %d", o.exit, m.exit)
				}
				wants(t, fx, o, m.out, m.not...)
				if fx.read("$WS/x/y/secret") != keyText || fx.read("$WS/.git/config") != "c\n" {
					t.Error("the denied or the protected file has changed")
				}
				stillServes(t, fx, s)
			})
		}
	})
}

// If the workspace can no longer be entered, a start is answered all the same.
func TestAdversaryLockedWorkspace(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		s.output(t, workspaceOnly(), `chmod 000 $WS`)
		p, err := s.try(workspaceOnly(), `echo x > $WS/made; echo ran`)
		if err != nil {
			t.Logf("refused: %v", err)
		} else {
			t.Logf("ran: %+v", p.finish(t))
		}
		fx.check(os.Chmod(fx.ws, 0o755))
		stillServes(t, fx, s)
	})
}

// fileURI returns a path as a URI.
func fileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// entryFor returns an entry for a path that may contain any characters.
func entryFor(path, access string) entry {
	return entry{"path": map[string]any{"type": "path", "path": fileURI(path)}, "access": access}
}

// strangeNames are file names that look like options, variables or separators.
var strangeNames = map[string]string{
	"newline": "a\nb", "newline-option": "x\n--bind\n/\n/", "quotes": `q"'` + "`$(id)`", "option": "--bind", "dash": "-", "double-dash": "--",
	"spaces": "  a b  ", "tab": "\t", "unicode": "ünï\u202e文件", "combining": "e\u0301", "percent": "%2e%2e", "backslash": `a\b\n`, "glob": "*?[a]{b,c}",
	"long": strings.Repeat("l", 255), "colon": "a:b,c=d", "dots": "...", "not-utf8-like": "\u00ff\u00fe", "ansi": "\x1b[31mred",
}

// A rule with a strange name is enforced, or the command is refused.
func TestAdversaryStrangeNames(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		for name, strange := range strangeNames {
			t.Run(name, func(t *testing.T) {
				fx, s := attackServer(t, a, func(fx *fixture) {
					for _, parent := range []string{fx.ws + "/deny", fx.ws + "/read", fx.out + "/write"} {
						fx.check(os.MkdirAll(filepath.Join(parent, strange), 0o755))
						fx.check(os.WriteFile(filepath.Join(parent, strange, "f"), []byte(keyText), 0o600))
					}
				})
				p := workspaceOnly().with(entryFor(fx.ws+"/deny/"+strange, "deny"), entryFor(fx.ws+"/read/"+strange, "read"), entryFor(fx.out+"/write/"+strange, "write"))
				env := fx.attackEnv(map[string]string{"NAME": strange})
				c, err := s.try(p, `cat "$WS/deny/$NAME/f" && echo READ; (echo x > "$WS/read/$NAME/n") && echo WROTE; cat "$WS/read/$NAME/f" > /dev/null && echo readable
					(echo x > "$OUT/write/$NAME/n") && echo writable; (echo x > $OUT/n) && echo WROTE OUT; mv "$WS/deny/$NAME" $WS/m && echo MOVED; true`, map[string]any{"env": env})
				if err := refusedOr(err); err != nil {
					t.Logf("refused: %.300v", err)
					return
				}
				wants(t, fx, c.finish(t), []string{"^readable$", "^writable$"}, "READ", "WROTE", "MOVED", keyText)
				fx.check(os.RemoveAll(fx.out + "/write"))
				fx.intact(t)
				row{}.checkHost(t, fx, s.instance)
			})
		}
	})
}

// Entries with unusual, very long or very many paths are enforced, or the start is refused.
func TestAdversaryStrangePaths(t *testing.T) {
	notForReference(t, "it is not attacked")
	deep := strings.Repeat("/"+strings.Repeat("d", 200), 15) // with the directories above it, close to the maximum length of a path
	cases := []struct {
		name    string
		entries func(fx *fixture) []entry
		script  string
	}{
		{"parents", func(fx *fixture) []entry {
			return []entry{at(fx.ws+"/sub/../../out", "deny"), at(fx.ws+"/x/../key", "deny")}
		}, `cat key $OUT/secret.txt`},
		{"write-parents", func(fx *fixture) []entry {
			return []entry{at(fx.ws+"/sub/../../../..", "read"), at(fx.ws+"/key", "deny"), at(fx.out, "deny")}
		}, `cat key $OUT/secret.txt; echo x > $OUT/n`},
		{"slashes", func(fx *fixture) []entry { return []entry{at(fx.ws+"//key//", "deny"), at(fx.out+"///", "deny")} }, `cat key $OUT/secret.txt`},
		{"dots", func(fx *fixture) []entry { return []entry{at(fx.ws+"/./key/.", "deny"), at(fx.out+"/./", "deny")} }, `cat key $OUT/secret.txt`},
		{"duplicates", func(fx *fixture) []entry {
			var many []entry
			for range 50 {
				many = append(many, at(fx.ws+"/key", "write"), at(fx.ws+"/key", "deny"), at(fx.ws+"/key", "read"), at(fx.out, "deny"), at(fx.out, "write"))
			}
			return many
		}, `cat key $OUT/secret.txt; echo x > $OUT/n; echo x > key`},
		{"encoded", func(fx *fixture) []entry { return []entry{at(fx.ws+"/%6bey", "deny"), at(fx.dir+"/%6fut", "deny")} }, `cat key $OUT/secret.txt`},
		{"too-long", func(fx *fixture) []entry {
			return []entry{at(fx.ws+"/"+strings.Repeat("l", 300), "deny"), at(fx.ws+"/key", "deny"), at(fx.out, "deny")}
		}, `cat key $OUT/secret.txt`},
		{"longer-than-paths", func(fx *fixture) []entry {
			return []entry{at(fx.ws+deep+deep, "deny"), at(fx.ws+"/key", "deny"), at(fx.out, "deny")}
		}, `cat key $OUT/secret.txt`},
		{"deep", func(fx *fixture) []entry {
			return []entry{at(fx.ws+deep, "deny"), at(fx.ws+"/key", "deny"), at(fx.out, "deny")}
		}, `cat key $OUT/secret.txt ` + "$WS" + deep + `/f`},
		{"nul", func(fx *fixture) []entry {
			return []entry{at(fx.ws+"/key%00", "deny"), at(fx.ws+"/key", "deny"), at(fx.out, "deny")}
		}, `cat key $OUT/secret.txt`},
		{"relative", func(fx *fixture) []entry {
			return []entry{at("key", "deny"), at(fx.ws+"/key", "deny"), at(fx.out, "deny")}
		}, `cat key $OUT/secret.txt`},
	}
	eachAccount(t, func(t *testing.T, a *account) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				fx, s := attackServer(t, a, func(fx *fixture) {
					fx.write("$WS/key", keyText)
					fx.mkdir("$WS/x")
					fx.check(os.MkdirAll(fx.ws+deep, 0o755))
					fx.check(os.WriteFile(fx.ws+deep+"/f", []byte(keyText), 0o600))
				})
				p, err := s.try(workspaceOnly().with(c.entries(fx)...), c.script+`; true`)
				if err := refusedOr(err); err != nil {
					t.Logf("refused: %.300v", err)
				} else {
					wants(t, fx, p.finish(t), nil, keyText, "top secret")
				}
				fx.intact(t)
				stillServes(t, fx, s)
			})
		}
	})
}

// Hundreds of entries are enforced, in make soak two thousand. Half of the paths do not exist, which keeps the number of mounts low: bubblewrap's time
// grows with its square.
func TestAdversaryManyRules(t *testing.T) {
	notForReference(t, "it is not attacked")
	const missing = 50
	each := tethertest.Scaled(200, 500)
	eachAccount(t, func(t *testing.T, a *account) {
		p := workspaceOnly()
		fx, s := attackServer(t, a, func(fx *fixture) {
			for i := range each {
				fx.write(fmt.Sprintf("$WS/many/%d", i), keyText)
				fx.write(fmt.Sprintf("$OUT/many/%d", i), keyText)
				p = p.deny(fmt.Sprintf("$WS/many/%d", i)).deny(fmt.Sprintf("$OUT/many/%d", i))
				p = p.deny(fmt.Sprintf("$OUT/missing/%d", i)).deny(fmt.Sprintf("$OUT/none-%d", i))
			}
			for i := range missing {
				p = p.deny(fmt.Sprintf("$WS/missing-%d", i))
			}
			fx.write("$WS/many/open", fileText)
		})
		began := time.Now()
		c, err := s.try(p, `cat many/* $OUT/many/*; echo x > many/7; rm -f many/8; for i in 0 9 49; do (echo x > missing-$i) && echo MADE; done; true`)
		if err := refusedOr(err); err != nil {
			t.Fatalf("refused: %.300v", err)
		}
		t.Logf("started after %v", time.Since(began).Round(time.Millisecond))
		o := c.finish(t)
		if strings.Contains(o.all, keyText) || strings.Contains(o.all, "MADE") || !strings.Contains(o.all, fileText) {
			t.Errorf("%.500q", o.all)
		}
		tethertest.Eventually(t, func() error {
			if left, err := filepath.Glob(fx.ws + "/missing-*"); err != nil || len(left) > 0 {
				return fmt.Errorf("placeholders are left: %v %v", left, err)
			}
			return nil
		})
		fx.check(os.RemoveAll(fx.out + "/many"))
		fx.intact(t)
		stillServes(t, fx, s)
	})
}
