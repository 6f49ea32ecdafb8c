//go:build !linux

package proc

func (c *child) killKind() KillKind { return KillGroup }

// refresh reports false: on this system no survivors are found.
func (s *Survivor) refresh() bool { return false }
