package wire

import "testing"

func TestSizeText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1 << 10: "1 KiB", 1536: "1.5 KiB", 2 << 30: "2 GiB", 5 << 29: "2.5 GiB", 1<<64 - 1: "16.0 EiB", 1000 << 20: "1000 MiB"} {
		if got := SizeText(n); got != want && !(n == 1<<64-1 && got == "16 EiB") {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestMemoryKillText(t *testing.T) {
	size := uint64(2 << 30)
	for want, kill := range map[string]MemoryKill{
		"memory limit of 2 GiB": {Limit: LimitCommand, Bytes: &size},
		"memory limit":          {Limit: LimitCommand},
		"out of memory (a limit above the server, or the machine)": {Limit: LimitOuter, Bytes: &size},
		"memory limit of 2 GiB for all commands of the server":     {Limit: LimitServer, Bytes: &size},
	} {
		if got := kill.Text(); got != want {
			t.Errorf("%+v: %q", kill, got)
		}
	}
}
