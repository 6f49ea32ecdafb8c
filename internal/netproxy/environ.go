package netproxy

import (
	"slices"
	"strings"
)

// The variables of a process that is to use proxies, by what they are set to.
var (
	httpVariables = []string{
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
		"YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
		"npm_config_http_proxy", "npm_config_https_proxy", "npm_config_proxy",
		"NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_PROXY",
		"BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY",
		"DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY",
		"WS_PROXY", "WSS_PROXY", "ws_proxy", "wss_proxy",
	}
	socksVariables = []string{"ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"}
	noVariables    = []string{
		"NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY",
		"YARN_NO_PROXY", "BUNDLE_NO_PROXY",
	}
)

// localHosts is what a process with local binding reaches without a proxy.
const localHosts = "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"

// Environment returns env with what a process needs to use the proxies at these
// addresses (host:port), over whatever it says about proxies. An empty socks stands
// for no SOCKS5 proxy.
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

	taken := map[string]bool{attributionVariable: true}
	for _, v := range set {
		name, _, _ := strings.Cut(v, "=")
		taken[strings.ToUpper(name)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return taken[strings.ToUpper(name)] // in any case, or Http_Proxy would be another way
	})
	return append(kept, set...)
}
