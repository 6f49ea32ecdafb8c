package netproxy

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

func TestEnvironment(t *testing.T) {
	const http, socks = "http://127.0.0.1:1001", "socks5h://127.0.0.1:1002"
	const local = "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"
	for _, c := range []struct {
		name, socks string
		binding     bool
		want        [3]string // ALL_PROXY, NO_PROXY, local binding
	}{
		{"plain", "127.0.0.1:1002", false, [3]string{socks, "", "0"}},
		{"local binding", "127.0.0.1:1002", true, [3]string{socks, local, "1"}},
		{"no SOCKS", "", false, [3]string{http, "", "0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[string]string{
				"PATH": "/bin", "EMPTY": "",
				"CODEX_NETWORK_PROXY_ACTIVE": "1", "CODEX_NETWORK_ALLOW_LOCAL_BINDING": c.want[2],
				"ELECTRON_GET_USE_PROXY": "true", "NODE_USE_ENV_PROXY": "1",
			}
			for name := range strings.FieldsSeq(`HTTP_PROXY HTTPS_PROXY http_proxy https_proxy YARN_HTTP_PROXY YARN_HTTPS_PROXY
				npm_config_https_proxy npm_config_proxy NPM_CONFIG_HTTPS_PROXY
				NPM_CONFIG_PROXY BUNDLE_HTTP_PROXY BUNDLE_HTTPS_PROXY PIP_PROXY DOCKER_HTTP_PROXY DOCKER_HTTPS_PROXY WS_PROXY
				WSS_PROXY ws_proxy wss_proxy`) {
				want[name] = http
			}
			for name := range strings.FieldsSeq("ALL_PROXY all_proxy FTP_PROXY ftp_proxy") {
				want[name] = c.want[0]
			}
			for name := range strings.FieldsSeq("NO_PROXY no_proxy npm_config_noproxy NPM_CONFIG_NOPROXY YARN_NO_PROXY BUNDLE_NO_PROXY") {
				want[name] = c.want[1]
			}
			before := []string{"PATH=/bin", "HTTP_PROXY=http://elsewhere", "Http_Proxy=http://elsewhere", "no_proxy=*", "No_Proxy=*",
				"npm_config_http_proxy=http://elsewhere", "NPM_CONFIG_HTTP_PROXY=http://elsewhere", "HTTP_PROXY=http://twice", "CODEX_NETWORK_PROXY_ATTRIBUTION=token", "CODEX_NETWORK_PROXY_ACTIVE=0", "EMPTY="}
			given := slices.Clone(before)
			got := map[string]string{}
			for _, v := range Environment(given, "127.0.0.1:1001", c.socks, c.binding) {
				name, value, _ := strings.Cut(v, "=")
				if _, twice := got[name]; twice {
					t.Errorf("%s is there twice", name)
				}
				got[name] = value
			}
			for name := range got {
				if Owns(name) != (name != "PATH" && name != "EMPTY") {
					t.Errorf("Owns(%s) is %v", name, Owns(name))
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			if !slices.Equal(given, before) {
				t.Error("the argument has changed")
			}
		})
	}
}

// npm accepts all of its settings in the environment of a process with a proxy.
func TestNPMDoesNotWarn(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		need.CannotRun(t, "npm is not installed")
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_UPDATE_NOTIFIER=1", "npm_config_http_proxy=http://127.0.0.1:1"}
	for setting, want := range map[string]string{"proxy": "http://127.0.0.1:1001", "https-proxy": "http://127.0.0.1:1001", "noproxy": ""} {
		cmd := exec.CommandContext(t.Context(), npm, "config", "get", setting, "--offline")
		cmd.Dir, cmd.Env = t.TempDir(), Environment(env, "127.0.0.1:1001", "127.0.0.1:1002", false)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Trim(string(out), "\"\n/") != strings.Trim(want, "/") {
			t.Errorf("npm says %q (%v) of %s, want %q", out, err, setting, want)
		}
	}
}
