//go:build unix

package audit

import (
	"bytes"
	"io"
	"log/syslog"
)

// A systemLog sends each line as a message of its own.
type systemLog struct{ *syslog.Writer }

func openSyslog() (io.WriteCloser, error) {
	w, err := syslog.New(syslog.LOG_INFO|syslog.LOG_AUTH, "tether")
	if err != nil {
		return nil, err
	}
	return systemLog{w}, nil
}

func (s systemLog) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		if err := s.Info(string(line)); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}
