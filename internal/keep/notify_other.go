//go:build !linux

package keep

// NotifyVariable is the name of the variable with the socket of systemd, which only Linux has.
const NotifyVariable = "NOTIFY_SOCKET"

// NotifyReady does nothing: this system has no such service manager.
func NotifyReady(string) {}
