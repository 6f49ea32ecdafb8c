package observe

import "golang.org/x/sys/unix"

func init() {
	calls[unix.SYS_POLL] = knownCall{CallPoll, "poll"}
	calls[unix.SYS_SELECT] = knownCall{CallPoll, "select"}
	calls[unix.SYS_EPOLL_WAIT] = knownCall{CallPoll, "epoll_wait"}
	calls[unix.SYS_PAUSE] = knownCall{CallSignal, "pause"}
	calls[unix.SYS_ACCEPT] = knownCall{CallNetwork, "accept"}
	calls[unix.SYS_OPEN] = knownCall{CallUnknown, "open"}
}
