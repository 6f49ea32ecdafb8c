package native

import (
	"bufio"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

var update = flag.Bool("update", false, "write the golden scripts")

// readPlan is the reverse of Plan.String, for the golden plans of package sandbox.
func readPlan(t testing.TB, name string) *sandbox.Plan {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &sandbox.Plan{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "  # ")
		words := strings.Fields(text)
		rest := strings.Join(words[1:], " ")
		switch words[0] {
		case "shape":
			for s := sandbox.ShapeOpen; s <= sandbox.ShapeNamespaces; s++ {
				if s.String() == rest {
					p.Shape = s
				}
			}
		case "unshare":
			has := func(name string) bool { return slices.Contains(words[1:], name) }
			p.Namespaces = sandbox.Namespaces{User: has("user"), PID: has("pid"), IPC: has("ipc"), Net: has("net")}
		case "filter":
			for f := sandbox.FilterNone; f <= sandbox.FilterProxyUnix; f++ {
				if f.String() == rest {
					p.Filter = f
				}
			}
		case "cwd":
			p.Cwd = rest
		case "env":
		default:
			p.Ops = append(p.Ops, readOp(t, words))
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return p
}

func readOp(t testing.TB, words []string) sandbox.Op {
	t.Helper()
	for k := sandbox.OpBindRO; k <= sandbox.OpPlaceholder; k++ {
		if k.String() != words[0] {
			continue
		}
		op := sandbox.Op{Kind: k, Path: words[1]}
		if mode, err := strconv.ParseUint(words[len(words)-1], 8, 32); err == nil {
			op.Mode = fs.FileMode(mode & 0o777)
			if mode&0o1000 != 0 {
				op.Mode |= fs.ModeSticky
			}
		}
		if k == sandbox.OpSymlink {
			op.Target = words[3]
		}
		return op
	}
	t.Fatalf("unknown operation %q", words)
	return sandbox.Op{}
}

// orderOf returns an order for a plan on a machine where every path has an inode.
func orderOf(p *sandbox.Plan) *Order {
	o := &Order{
		Plan: p, Hidden: "/state/hidden", Empty: "/state/empty", UID: 1000, LastCapability: 2,
		Filter: make([]byte, 16), StageDev: 0x1, StageIno: 7,
		Config: &stage.Config{Argv: []string{"make", "test"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", NoStdin: true, Filter: make([]byte, 8)},
	}
	if p.Cwd != "" {
		o.Config.Dir = p.Cwd
	}
	if p.Managed() {
		o.Config.Listen, o.Ports, o.Config.Outside = 2, []int{41000, 41001}, 77
	}
	add := func(m stage.Mount) { o.Config.Mounts = append(o.Config.Mounts, m) }
	for _, op := range p.Ops {
		inode := func(of string) uint64 {
			n := uint64(17)
			for _, b := range []byte(of) {
				n = n*31 + uint64(b)
			}
			return n
		}
		switch op.Kind {
		case sandbox.OpBindRO:
			add(stage.Mount{Path: op.Path, ReadOnly: true, Dev: 0x801, Ino: inode(op.Path), Directory: true})
		case sandbox.OpBindRW, sandbox.OpPin:
			add(stage.Mount{Path: op.Path, Dev: 0x801, Ino: inode(op.Path), Directory: true})
		case sandbox.OpMaskFile:
			source := o.Empty
			if op.Mode == 0 {
				source = o.Hidden
			}
			add(stage.Mount{Path: op.Path, ReadOnly: true, Dev: 0x801, Ino: inode(source)})
		case sandbox.OpMaskDir:
			add(stage.Mount{Path: op.Path, ReadOnly: true, Kind: stage.MountMask})
		case sandbox.OpCover:
			add(stage.Mount{Path: op.Path, ReadOnly: true, Kind: stage.MountDevice})
		case sandbox.OpProc:
			add(stage.Mount{Path: op.Path, Kind: stage.MountProc})
		case sandbox.OpFreeze:
			add(stage.Mount{Path: op.Path, ReadOnly: true, Kind: stage.MountProc})
		case sandbox.OpDev:
			add(stage.Mount{Path: op.Path, Kind: stage.MountDev})
		}
	}
	return o
}

// planNames are the golden plans of package sandbox that need namespaces.
var planNames = []string{"read-only", "workspace-write", "named-profile", "nested", "minimal", "root-write", "managed", "managed-unrestricted"}

func TestGoldenScripts(t *testing.T) {
	for _, name := range planNames {
		t.Run(name, func(t *testing.T) {
			script, err := Compile(orderOf(readPlan(t, name+".plan")))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := script.Encode(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".script")
			if *update {
				if err := os.WriteFile(file, []byte(script.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if script.String() != string(want) {
				t.Errorf("got\n%v\nwant\n%s", script, want)
			}
		})
	}
}

// A plan that this backend cannot carry out is refused.
func TestRefusedPlans(t *testing.T) {
	root := sandbox.Op{Kind: sandbox.OpBindRO, Path: "/"}
	for name, p := range map[string]*sandbox.Plan{
		"no namespaces":      {Shape: sandbox.ShapeFilter},
		"no root":            {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{{Kind: sandbox.OpBindRO, Path: "/usr"}}},
		"a second root":      {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{root, root}},
		"a relative path":    {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{root, {Kind: sandbox.OpBindRO, Path: "usr"}}},
		"a zero byte":        {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{root, {Kind: sandbox.OpMaskDir, Path: "/a\x00b"}}},
		"dir on the host":    {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{root, {Kind: sandbox.OpDir, Path: "/usr"}}},
		"link on the host":   {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{root, {Kind: sandbox.OpSymlink, Path: "/l", Target: "x"}}},
		"scratch below":      {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{root, {Kind: sandbox.OpScratch, Path: "/tmp"}}},
		"too many arguments": {Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{root}, Cwd: strings.Repeat("/x", maxScript/2)},
	} {
		t.Run(name, func(t *testing.T) {
			script, err := Compile(orderOf(p))
			if err == nil {
				_, err = script.Encode()
			}
			if err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

// Any plan compiles or is refused, and no address of a script is outside of it. What the model then does with it ends.
func FuzzCompile(f *testing.F) {
	f.Add([]byte("any plan compiles or is refused"))
	f.Add([]byte{0, 1, 6, 2, 7, 3, 9, 0, 4, 1, 11, 2, 200, 3, 12, 13})
	f.Fuzz(func(t *testing.T, data []byte) {
		roll := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := int(data[0])
			data = data[1:]
			return b % n
		}
		p := &sandbox.Plan{Shape: sandbox.ShapeNamespaces, Filter: sandbox.Filter(1 + roll(4)), Cwd: "/"}
		p.Namespaces = sandbox.Namespaces{User: roll(2) == 0, PID: true, IPC: true, Net: roll(2) == 0}
		p.Ops = append(p.Ops, sandbox.Op{Kind: []sandbox.OpKind{sandbox.OpBindRO, sandbox.OpBindRW, sandbox.OpScratch}[roll(3)], Path: "/"})
		for range roll(40) {
			name := "/"
			for range 1 + roll(3) {
				name = filepath.Join(name, []string{"a", "b", "dev", "proc", "tmp", "x y", "ü", "null"}[roll(8)])
			}
			p.Ops = append(p.Ops, sandbox.Op{
				Kind: sandbox.OpKind(roll(int(sandbox.OpPlaceholder) + 1)), Path: name, Target: "t",
				Mode: []fs.FileMode{0, 0o111, 0o555, 0o777 | fs.ModeSticky}[roll(4)],
			})
		}
		o := orderOf(p)
		o.Config.TTY, o.Config.NoStdin = roll(2) == 1, roll(2) == 1
		if roll(4) == 1 {
			o.Config.Refusal = "no"
		}
		if roll(4) == 1 {
			o.Config.Argv[0] = "/bin/program"
		}
		script, err := Compile(o)
		if err != nil {
			return
		}
		encoded, err := script.Encode()
		if err != nil {
			t.Fatalf("%v\n%v", err, script)
		}
		checkAddresses(t, script, encoded)
		k := newKernel(o)
		outcome := k.carryOut(encoded)
		if outcome.err != nil {
			t.Errorf("%v\n%v", outcome.err, script)
		}
	})
}

// checkAddresses checks that each address that the stage would follow is in the script.
func checkAddresses(t *testing.T, s *Script, encoded []byte) {
	t.Helper()
	within := func(address uint64) bool {
		return address >= scriptBase && address+8 <= scriptBase+uint64(len(encoded))
	}
	m := &model{memory: encoded}
	for i := range s.records {
		at := uint64(scriptBase + headerSize + recordSize*i)
		flags := m.load(at) >> 32
		for j := range s.records[i].args {
			if a := m.load(at + 8 + 8*uint64(j)); flags&(1<<j) != 0 && !within(a) {
				t.Fatalf("record %d reads %#x", i, a)
			}
		}
		if result := m.load(at + 56); result != 0 && !within(result) {
			t.Fatalf("record %d stores at %#x", i, result)
		}
		if call := s.records[i].call; call == callJump && !within(m.load(at+8)) || call == callJumpEqual && !within(m.load(at+32)) {
			t.Fatalf("record %d jumps away", i)
		}
	}
}

func ExampleScript() {
	s := newScript()
	s.step(stepSource, "/usr")
	s.call(callSet, number(1)).into(s.cell())
	fmt.Print(s)
	// Output:
	// # open /usr
	// 	c1 = set 0x1
}
