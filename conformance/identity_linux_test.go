package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// statusScript prints the capabilities, user map and namespaces of a process.
const statusScript = `grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cat /proc/self/uid_map /proc/self/setgroups; readlink /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/net`

// confinedStatus checks the status of a command in namespaces.
func confinedStatus(t *testing.T, fx *fixture, o outcome) {
	t.Helper()
	if caps := regexp.MustCompile(`(?m)^Cap\w+:\s*(\w+)`).FindAllStringSubmatch(o.stdout, -1); len(caps) != 5 {
		t.Errorf("%d capability sets", len(caps))
	} else {
		for _, set := range caps {
			if strings.Trim(set[1], "0") != "" {
				t.Errorf("capabilities are left: %s", set[0])
			}
		}
	}
	id := fmt.Sprint(fx.account.uid) // the id inside; in the next outer namespace it may differ
	for _, want := range []string{`NoNewPrivs:\s+1`, `Seccomp:\s+2`, `^\s*` + id + `\s+(` + id + `|0)\s+1$`, `^deny$`} {
		if !fx.pattern(want).MatchString(o.stdout) {
			t.Errorf("the status does not match %s", want)
		}
	}
	for _, ns := range []string{"pid", "mnt"} {
		if strings.Contains(o.stdout, ownNamespace(t, ns)) {
			t.Errorf("the command is in the %s namespace of the host", ns)
		}
	}
}

func ownNamespace(t *testing.T, name string) string {
	t.Helper()
	link, err := os.Readlink("/proc/self/ns/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// ownNetwork checks whether the command had the network namespace of the host.
func ownNetwork(host bool) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, o outcome) {
		t.Helper()
		confinedStatus(t, fx, o)
		if strings.Contains(o.stdout, ownNamespace(t, "net")) != host {
			t.Errorf("the network of the host: want %v", host)
		}
	}
}

// untouched checks that a command has the namespaces and rights of the server, except for a filter.
func untouched(filtered bool) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, o outcome) {
		t.Helper()
		for _, ns := range []string{"pid", "mnt", "net"} {
			if !strings.Contains(o.stdout, ownNamespace(t, ns)) {
				t.Errorf("the command is not in the %s namespace of the host", ns)
			}
		}
		own, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		value := func(text, name string) string {
			found := regexp.MustCompile(`(?m)^` + name + `:\s*(\w+)`).FindStringSubmatch(text)
			if found == nil {
				t.Fatalf("no %s in the status", name)
			}
			return found[1]
		}
		want := map[string]string{"NoNewPrivs": value(string(own), "NoNewPrivs"), "Seccomp": value(string(own), "Seccomp")}
		if filtered {
			want = map[string]string{"NoNewPrivs": "1", "Seccomp": "2"}
		}
		if os.Geteuid() == fx.account.uid {
			want["CapEff"] = value(string(own), "CapEff")
		}
		for name, w := range want {
			if got := value(o.stdout, name); got != w {
				t.Errorf("%s is %s, want %s", name, got, w)
			}
		}
	}
}

// kernelFiles are files of /proc by which root can leave any sandbox, or end the
// machine.
var kernelFiles = []string{
	"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/panic",
	"/proc/sysrq-trigger",
}

func identityRows() []row {
	var openAll strings.Builder
	for _, name := range kernelFiles {
		fmt.Fprintf(&openAll, "if [ -e %[1]s ]; then (: >> %[1]s) && echo OPENED %[1]s; fi\n", name)
	}
	openAll.WriteString("true")
	return []row{
		{id: "P01", policy: workspaceOnly(), script: `echo pid $$; for d in /proc/[0-9]*; do echo process ${d#/proc/}; done`,
			out: []string{"^pid 2$", "^process 1$"}, check: func(t *testing.T, _ *fixture, o outcome) {
				if n := strings.Count(o.stdout, "process "); n > 3 {
					t.Errorf("%d processes are visible", n)
				}
			}},
		{id: "P02", policy: workspaceOnly(), script: `tr '\0' '\n' < /proc/1/environ; ls /proc/1/root/; cat /proc/1/root$OUT/secret.txt; echo x > /proc/1/root$OUT/n; true`,
			not: []string{serverSecret}, host: []string{"-$OUT/n"}},
		{id: "P03", policy: workspaceOnly(), script: `v=$(cat /proc/sys/kernel/panic); echo $v > /proc/sys/kernel/panic`, exit: 2, denied: yes, only: "root",
			out: []string{textROFS}, Reference: "root can write below /proc/sys"},
		{id: "P04", policy: workspaceOnly(), script: statusScript, check: ownNetwork(false)},
		{id: "P05", policy: workspaceOnly().net(), script: statusScript, check: ownNetwork(true)},
		{id: "P06", policy: rootWrite(), script: statusScript, check: untouched(true)},
		{id: "P07", policy: unrestricted(), script: `echo x > $OUT/n; ` + statusScript, host: []string{"+$OUT/n"}, check: untouched(true)},
		{id: "P08", policy: unrestricted().net(), script: statusScript, check: untouched(false)},
		{id: "P09", policy: disabled(), script: `echo x > $OUT/n; echo Seccomp; exit 3`, exit: 3, denied: yes, host: []string{"+$OUT/n"}},
		{id: "P10", policy: external(), script: `echo x > $OUT/n; $PROBE socket inet stream`, exit: 1, denied: no, out: []string{"EPERM"}, host: []string{"+$OUT/n"}},
		{id: "P11", policy: external().net(), script: statusScript, check: untouched(false)},
		{id: "P12", policy: unconfined(), script: statusScript + `; echo core $(ulimit -c)`, out: []string{coreLimit()}, check: untouched(false)},
		{id: "P13", policy: disabled(), script: `echo Permission denied; exit 3`, exit: 3, denied: yes},
		{id: "P20", policy: workspaceOnly(), script: openAll.String(), only: "root", out: []string{"core_pattern: " + textROFS}, not: []string{"OPENED"},
			Reference: "root can open them for writing"},
		{id: "P20-user", policy: workspaceOnly(), script: openAll.String(), only: "user", out: []string{"core_pattern: (" + textACCES + "|" + textROFS + ")"}, not: []string{"OPENED"}},
		{id: "C01", policy: workspaceOnly(), script: `echo core $(ulimit -c)`, out: []string{coreLimit()}},
	}
}

// coreLimit is the line that a command prints about its limit on core dumps: this test starts the server, so the limit is the
// test's own.
func coreLimit() string {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -c").Output()
	if err != nil {
		panic(err) // every shell has it
	}
	return "^core " + strings.TrimSpace(string(out)) + "$"
}

func deviceRows() []row {
	return []row{
		{id: "D01", policy: workspaceOnly(), script: `ls /dev`, check: func(t *testing.T, _ *fixture, o outcome) {
			want := []string{"core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
			if got := strings.Fields(o.stdout); !slices.Equal(got, want) {
				t.Errorf("/dev has %v, want %v", got, want)
			}
		}},
		{id: "D02", policy: workspaceOnly(), script: `cat /dev/kmsg /dev/mem /dev/vda /dev/sda`, exit: 1, denied: no, out: []string{"kmsg: " + textNOENT}, not: []string{textACCES}},
		{id: "D03", policy: workspaceOnly(), script: writeOutside("/dev"), check: outside("/dev", false)},
		{id: "D04", policy: workspaceOnly(), probe: "mknod $WS/device", exit: 1, denied: no, out: []string{"EPERM"}, host: []string{"-$WS/device"}},
		{id: "D05", policy: minimalWrite(), script: writeOutside("") + ` && ` + writeOutside("/tmp"), check: func(t *testing.T, fx *fixture, o outcome) {
			outside("", false)(t, fx, o)
			outside("/tmp", false)(t, fx, o)
		}, Reference: "there is no /tmp unless something below it is visible"},
		{id: "D06", policy: readOnly().with(at("/dev/shm", "write")), script: writeOutside("/dev/shm"), check: outside("/dev/shm", true)},
	}
}

// alive reports whether a process of the host runs.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
