package appserver

import (
	"fmt"
	"runtime"

	"github.com/tetherexec/tether/wire"
)

// userAgent is what the server would call itself on behalf of a client.
func userAgent(who wire.AppClientInfo, version string) string {
	arch := runtime.GOARCH
	switch arch {
	case "amd64":
		arch = "x86_64"
	case "arm64":
		arch = "aarch64"
	}
	return fmt.Sprintf("%s/%s (%s; %s) tether (%s; %s)", who.Name, version, runtime.GOOS, arch, who.Name, who.Version)
}
