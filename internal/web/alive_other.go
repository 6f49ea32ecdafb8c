//go:build !unix

package web

import "net"

// hungUp cannot look ahead on this system: the watch over an idle connection
// must do.
func hungUp(net.Conn) bool { return false }
