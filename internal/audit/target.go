package audit

import (
	"cmp"
	"io"
	"os"
)

// The targets that are not files.
const (
	Stderr = "stderr"
	Syslog = "syslog"
)

// open opens the target of a Config.
func open(c Config) (io.WriteCloser, error) {
	switch c.Target {
	case Stderr:
		return standardError{os.Stderr}, nil
	case Syslog:
		return openSyslog()
	}
	keep := c.Keep
	if keep == 0 {
		keep = DefaultKeep
	}
	return openFile(c.Target, cmp.Or(c.MaxSize, DefaultMaxSize), keep)
}

// standardError stays open.
type standardError struct{ io.Writer }

func (standardError) Close() error { return nil }
