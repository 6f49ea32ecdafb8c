package unifiedexec

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Rules that allow any command are recognized. In the table * stands for a quoted word with
// spaces.
func TestRulesThatAllowAnything(t *testing.T) {
	for rule, want := range map[string]bool{
		"ls": false, "npm install": false, "go test": false,

		// Interpreters run their first word, or the argument of -c.
		"sh": true, "sh -c": true, "bash -lc": true, "/bin/bash -e": true, "bash +x": true, "bash -": true,
		"sh -c *": false, "bash -lc *": false, "bash script.sh": false,
		"python3.12": true, "python3 -u": true, "python3 -W ignore": true, "python3 -c": true, `C:\py\python.exe`: true,
		"python3 -c *": false, "python3 -m pytest": false, "python3 -u script.py": false,
		"perl -e *": true, "perl -ne * file": false, "ruby -e *": true, "node -e *": true, "lua5.4 -e *": true, "php -r *": true,
		"tclsh": true, "tclsh8.6": true, "tclsh script.tcl": false,
		"awk": true, "awk -F ,": true, "gawk -f x.awk": true, "awk * file": false, "awk -F , * file": false, "mawk": true,
		"bun": true, "bun run": true, "bun x": true, "bun exec": true, "bun -e *": true, "bunx": true,
		"bun run dev": false, "bun install": false, "bunx cowsay": false, "bun x cowsay": false,
		"deno": true, "deno run": true, "deno run -A": true, "deno eval": true, "deno task": true, "deno repl": true,
		"deno run -A x.ts": false, "deno run --allow-net=example.test x.ts": false, "deno fmt": false,
		"make": true, "make -j4": true, "make -C dir": true, "make -j4 test": false,
		"git": true, "git -c alias.x=!sh": true, "git -C dir": true, "git -C dir status": false, "git --no-pager log": false,

		// Prefixes run the command after them, which may be a launcher itself.
		"npx": true, "npx -y": true, "npx -p eslint": true, "npx -c *": true, "npx eslint": false, "npx -y eslint": false, "npx.cmd eslint": false,
		"uvx": true, "uvx --from ruff": true, "uvx ruff": false, "uvx --from pkg ruff": false,
		"busybox": true, "busybox sh": true, "busybox sh -c": true, "busybox find .": true, "busybox ls": false,
		"setsid": true, "setsid -f": true, "setsid -w bash": true, "setsid -f make test": false,
		"strace": true, "strace -f": true, "strace -o file": true, "strace -f sh": true, "strace -f ls": false, "strace -o file ls": false,
		"env": true, "env A=1": true, "env -i": true, "env -u HOME": true, "env - bash": true, "env A=1 ls": false, "env -- bash": true,
		"sudo": true, "sudo -u bob": true, "sudo bash": true, "sudo -n env sh -c": true, "sudo -u bob ls": false, "sudo apt install": false,
		"nice -n 10": true, "nice -n 10 sh": true, "nice -10 ls": false, "nohup python3": true, "nohup python3 x.py": false,
		"timeout 5": true, "timeout -k 5 10": true, "timeout 5 bash": true, "timeout -- 5": true, "timeout 5 ls": false, "timeout -k 5 10 ls -l": false,
		"xargs": true, "xargs -n 1": true, "xargs sh -c *": true, "xargs -I {} sh -c *": true, "xargs rm": false,
		"command": true, "exec bash": true, "command -v go": false, "time -p": true, "time make test": false,

		// A container runs anything, the rest of the toolbox does not.
		"docker": true, "docker run": true, "docker run --rm alpine": true, "docker exec c ls": true, "docker compose run x": true,
		"docker -H tcp://h ps": true, "podman run x": true, "docker ps": false, "docker logs c": false,

		// Words at the end make these run anything.
		"find": true, "find . -name x": true, "sed": true, "sed -n 1p": true, "watch": true, "watch ls": true, "watch -n 5 ls": true,
		"script": true, "script -c ls": true, "gdb": true, "gdb -batch prog": true, "parallel": true, "parallel echo": true,
		"ssh host ls": true, "eval": true, "eval ls": true, ". x": true, "source x": true, "cmd /c dir": true, "powershell -Command ls": true, "vim x": true,
	} {
		words := strings.Fields(rule)
		for i, word := range words {
			if word == "*" {
				words[i] = "two words"
			}
		}
		if got := allowsAnything(words); got != want {
			t.Errorf("allowsAnything(%q) = %t", rule, got)
		}
	}
}

// A rule that allows any command is not proposed, also if the model asks for it. For commands that
// can always run others, there is no rule.
func TestLaunchersAreNotProposed(t *testing.T) {
	for _, row := range []struct{ cmd, asked, want string }{
		{"awk '{print $1}' f", "awk", "awk {print $1} f"},
		{"find . -name x", "find .", ""},
		{"sed -n 1p f", "sed -n", ""},
		{"npx -y eslint .", "npx -y", "npx -y eslint ."},
		{"npx eslint .", "npx eslint", "npx eslint"},
		{"busybox sh -c 'ls'", "busybox sh", "busybox sh -c ls"},
		{"setsid -f sh", "setsid -f sh", ""},
		{"docker run --rm alpine ls", "docker run", ""},
		{"docker ps -a", "docker ps", "docker ps"},
		{"gdb -batch -ex 'shell id'", "gdb -batch", ""},
		{"sudo -n bash", "sudo -n bash", ""},
	} {
		parts, plain := parseScript(row.cmd)
		if got := strings.Join(proposeRule(strings.Fields(row.asked), parts, plain), " "); !plain || got != row.want {
			t.Errorf("%q with %q: %q, want %q (plain %t)", row.cmd, row.asked, got, row.want, plain)
		}
	}
}

// Long rules are judged quickly, and very long ones are refused.
func TestLongRules(t *testing.T) {
	began := time.Now()
	rule := slices.Repeat([]string{"sudo", "-a"}, maxRuleWords/2)
	if !allowsAnything(rule) || !allowsAnything(slices.Repeat([]string{"ls"}, maxRuleWords+1)) {
		t.Error("a rule that fixes no command was accepted")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
