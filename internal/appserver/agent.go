package appserver

import (
	"fmt"
	"runtime"

	"github.com/tetherexec/tether/wire"
)

// userAgent is the user agent that the server would send for a client.
func userAgent(info wire.AppClientInfo, version string) string {
	arch := runtime.GOARCH
	switch arch {
	case "amd64":
		arch = "x86_64"
	case "arm64":
		arch = "aarch64"
	}
	return fmt.Sprintf("%s/%s (%s; %s) tether (%s; %s)", info.Name, version, runtime.GOOS, arch, info.Name, info.Version)
}
