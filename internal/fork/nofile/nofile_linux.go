//go:build amd64 || arm64

package nofile

// limit is a variable of the package, because the kernel writes to it.
var limit struct{ soft, hard uint64 }

// prlimit reads this process's limit of open files. It returns 0, or a negative errno.
func prlimit(limit *struct{ soft, hard uint64 }) int64

func read() (soft, hard uint64) {
	if prlimit(&limit) != 0 {
		return 0, 0
	}
	return limit.soft, limit.hard
}
