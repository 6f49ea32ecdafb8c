package sandbox

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	book := Rulebook{
		Rules: []BookRule{
			{Path: "/", Access: Read},
			{Path: "/ws", Access: Write},
			{Path: "/ws/.git", Access: Read, Absent: "/ws/.git"},
			{Path: "/ws/a/b/secret", Access: Deny, Absent: "/ws/a"},
			{Path: "/ws/hidden", Access: Deny},
			{Path: "/ws/hidden/open", Access: Write},
			{Path: "/ws/own", Access: Deny, Private: true},
			{Path: "/ws/own/x", Access: Write},
			{Path: "/ws/env/keep.env", Access: Write},
		},
		Globs: []BookGlob{{Dir: "/ws/env", Pattern: "*.env"}, {Dir: "/ws/flat", Pattern: "*.env", Depth: 1}, {Dir: "/ws/deep", Pattern: "x/*/y"}},
		Ops: []Op{
			{Kind: OpBindRO, Path: "/"}, {Kind: OpDev, Path: "/dev"}, {Kind: OpProc, Path: "/proc"}, {Kind: OpBindRW, Path: "/ws"},
			{Kind: OpMaskDir, Path: "/ws/hidden"}, {Kind: OpBindRW, Path: "/ws/hidden/open"}, {Kind: OpMaskDir, Path: "/ws/own"},
		},
	}
	j, err := book.Judge()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Judgement{
		"/etc":                {Access: Read, Ruled: true, Effect: HostReadable},
		"/dev/shm":            {Access: Read, Ruled: true, Effect: Private},
		"/ws":                 {Access: Write, Ruled: true, Effect: HostWritable},
		"/ws/x/.git":          {Access: Write, Ruled: true, Effect: HostWritable},
		"/ws/.git":            {Access: Read, Ruled: true, Absent: true, Effect: HostWritable},
		"/ws/.git/x":          {Access: Read, Ruled: true, Absent: true, Effect: HostWritable},
		"/ws/a":               {Access: Write, Ruled: true, Absent: true, Effect: HostWritable},
		"/ws/a/b/secret/x":    {Access: Deny, Ruled: true, Absent: true, Effect: HostWritable},
		"/ws/hidden":          {Access: Deny, Ruled: true, Masked: true, Effect: Hidden},
		"/ws/hidden/x":        {Access: Deny, Ruled: true, Effect: Hidden},
		"/ws/hidden/open/x":   {Access: Write, Ruled: true, Effect: HostWritable},
		"/ws/own/x/y":         {Access: Deny, Ruled: true, Effect: Hidden},
		"/ws/env":             {Access: Write, Ruled: true, Effect: HostWritable},
		"/ws/env/a/b.env":     {Access: Deny, Ruled: true, Effect: HostWritable},
		"/ws/env/b.env/below": {Access: Deny, Ruled: true, Effect: HostWritable},
		"/ws/env/keep.env":    {Access: Write, Ruled: true, Effect: HostWritable},
		"/ws/flat/b.env":      {Access: Deny, Ruled: true, Effect: HostWritable},
		"/ws/flat/a/b.env":    {Access: Write, Ruled: true, Effect: HostWritable},
		"/ws/deep/x/a/y":      {Access: Deny, Ruled: true, Effect: HostWritable},
		"/ws/deep/x/a":        {Access: Write, Ruled: true, Effect: HostWritable},
	} {
		if got := j.Decide(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	none, err := Rulebook{}.Judge()
	if err != nil || none.Decide("/x") != (Judgement{}) {
		t.Errorf("without rules: %+v %v", none.Decide("/x"), err)
	}
}

// A file that several rules are about is watched for everything that any of them
// depends on.
func TestWatched(t *testing.T) {
	host := newHost(fixture, "/fx/ws/.git:gitdir:_sub /fx/l->out /fx/out/x.env->secret.txt")
	policy, err := Bind(intentOf(t, policyWN+", deny glob:/fx/l/*.env"), Process{Cwd: "/fx/ws"}, host)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, w := range policy.Watched() {
		if _, twice := got[w.Path]; twice {
			t.Errorf("%s is watched twice", w.Path)
		}
		got[w.Path] = w.Content
	}
	for path, content := range map[string]bool{"/fx/ws/.git": true, "/fx/l": true, "/fx/out/x.env": true, "/fx/ws": false, "/fx/ws/sub": false} {
		if now, ok := got[path]; !ok || now != content {
			t.Errorf("%s: watched %v, with its content %v; want %v", path, ok, now, content)
		}
	}
}

// The files through which root could change the kernel are frozen in every
// new /proc.
func TestFrozenForRoot(t *testing.T) {
	host := newHost(fixture, "/proc/scsi/scsi /proc/acpi/wakeup /proc/fs/")
	for root, want := range map[bool]string{true: "/proc/sys /proc/fs /proc/sysrq-trigger /proc/acpi/wakeup /proc/scsi", false: "/proc/sys"} {
		_, plan, err := compiled(host, intentOf(t, policyRO), Process{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		var frozen []string
		for _, op := range plan.Ops {
			if op.Kind == OpFreeze {
				frozen = append(frozen, op.Path)
			}
		}
		if got := strings.Join(frozen, " "); got != want {
			t.Errorf("for root %v: %s", root, got)
		}
	}
}
