package netproxy

import (
	"slices"
	"strings"
	"sync"
)

// The variables of a process that uses proxies, by their values.
var (
	httpVariables = []string{
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
		"YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
		"npm_config_https_proxy", "npm_config_proxy", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_PROXY",
		"BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY",
		"DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY",
		"WS_PROXY", "WSS_PROXY", "ws_proxy", "wss_proxy",
	}
	socksVariables = []string{"ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"}
	noVariables    = []string{
		"NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY",
		"YARN_NO_PROXY", "BUNDLE_NO_PROXY",
	}

	// switchVariables switch the use of the others on.
	switchVariables = []string{
		"CODEX_NETWORK_PROXY_ACTIVE", "CODEX_NETWORK_ALLOW_LOCAL_BINDING", "ELECTRON_GET_USE_PROXY", "NODE_USE_ENV_PROXY",
	}

	// removedVariables are not set; a value in the process's environment would be
	// another proxy. npm has no setting http-proxy and warns about the variable; its
	// setting for HTTP is called proxy.
	removedVariables = []string{"npm_config_http_proxy", attributionVariable}
)

// owned are the names, in upper case, of the variables that only this package sets.
var owned = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, name := range slices.Concat(httpVariables, socksVariables, noVariables, switchVariables, removedVariables) {
		names[strings.ToUpper(name)] = true
	}
	return names
})

// Owns reports whether a variable of a process with a proxy is set only by this
// package; other values are removed. Case does not count, because Http_Proxy would be
// another proxy.
func Owns(name string) bool { return owned()[strings.ToUpper(name)] }

// localHosts are the hosts that a process with local binding reaches without
// a proxy.
const localHosts = "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"

// Environment returns env with the variables that a process needs to use the
// proxies at these addresses (host:port); other variables about proxies are
// removed. An empty socks means no SOCKS5 proxy.
func Environment(env []string, http, socks string, localBinding bool) []string {
	httpURL := "http://" + http
	socksURL := httpURL
	if socks != "" {
		socksURL = "socks5h://" + socks
	}
	binding, direct := "0", ""
	if localBinding {
		binding, direct = "1", localHosts
	}

	set := []string{
		"CODEX_NETWORK_PROXY_ACTIVE=1",
		"CODEX_NETWORK_ALLOW_LOCAL_BINDING=" + binding,
		"ELECTRON_GET_USE_PROXY=true",
		"NODE_USE_ENV_PROXY=1",
	}
	for _, name := range httpVariables {
		set = append(set, name+"="+httpURL)
	}
	for _, name := range socksVariables {
		set = append(set, name+"="+socksURL)
	}
	for _, name := range noVariables {
		set = append(set, name+"="+direct)
	}
	kept := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return Owns(name)
	})
	return append(kept, set...)
}
