package launch

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// A client is told the value that it has sent, and what it can have. With bestEffort it gets that.
func TestLimitsOfCommands(t *testing.T) {
	l := &Launcher{config: Config{
		Limits: func() proc.Limits { return proc.Limits{proc.LimitProcesses: 100} },
		Total:  proc.Limits{proc.LimitMemory: 64 << 20, proc.LimitCPUs: 500, proc.LimitProcesses: 200},
	}}
	for text, want := range map[string]string{
		`{"memoryBytes":18446744073709551615}`: "limits: `memoryBytes` 18446744073709551615 is more than all commands of this server together get, which is 67108864",
		`{"memoryBytes":1048575}`:              "limits: `memoryBytes` 1048575 is less than a command needs: at least 1048576",
		`{"cpus":0.000000001}`:                 "limits: `cpus` 0.000000001 is less than a command needs: at least 0.01",
		`{"cpus":0.75}`:                        "limits: `cpus` 0.75 is more than all commands of this server together get, which is 0.5",
		`{"processes":150}`:                    "limits: `processes` 150 is more than this server grants to a command, which is 100",
		`{"timeMs":18446744073709551615}`:      "limits: `timeMs` 18446744073709551615 is more than can be asked for, which is 31622400000",
		`{"cpus":0.5,"memoryBytes":67108864}`:  "",
	} {
		c := &Command{params: startParams("p", "true")}
		c.params.Limits = new(wire.Limits)
		if err := wire.Decode([]byte(text), c.params.Limits); err != nil {
			t.Fatal(err)
		}
		err := l.checkLimits(c)
		if got := errorText(err); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		yes := true
		c.params.Limits.BestEffort = &yes
		if err := l.checkLimits(c); strings.Contains(want, "is more than") && (err != nil || c.limits[proc.LimitMemory] > 64<<20 || c.limits[proc.LimitCPUs] > 500 || c.limits[proc.LimitProcesses] != 100) {
			t.Errorf("%s as a best effort: %v, %v", text, err, c.limits)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
