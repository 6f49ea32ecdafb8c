package unifiedexec

import "testing"

// Messages that programs print in a sandbox without network are recognized.
func TestNetworkFailureMessages(t *testing.T) {
	for _, text := range []string{
		"curl: (6) Could not resolve host: x.invalid",
		"curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
		"Resolving x.invalid (x.invalid)... failed: Temporary failure in name resolution.\nwget: unable to resolve host address ‘x.invalid’",
		"fatal: unable to access 'https://x.invalid/a/': Could not resolve host: x.invalid",
		"fatal: unable to look up x.invalid (port 9418) (Temporary failure in name resolution)",
		"ssh: Could not resolve hostname x.invalid: Temporary failure in name resolution\nfatal: Could not read from remote repository.",
		"npm error code EAI_AGAIN\nnpm error request to http://x.invalid/a failed, reason: getaddrinfo EAI_AGAIN x.invalid",
		"    errno: -3001,\n    code: 'EAI_AGAIN',\n    syscall: 'getaddrinfo',\n    hostname: 'x.invalid'",
		"urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
		"dial tcp: lookup x.invalid on 127.0.0.1:53: no such host",
		"connect: Network is unreachable",
		"Err:1 http://x.invalid stable InRelease\n  Temporary failure resolving 'x.invalid'",
		"java.net.UnknownHostException: x.invalid",
	} {
		if !networkFailure([]byte(text)) {
			t.Errorf("not recognised: %s", text)
		}
	}
	for _, text := range []string{
		"", "make: *** [Makefile:3: test] Error 1", "sh: 1: cannot create /etc/x: Read-only file system",
		"connect to 127.0.0.1 port 5432: Connection refused", "HTTP 404: not found", "FAIL: TestNetwork",
	} {
		if networkFailure([]byte(text)) {
			t.Errorf("wrongly recognised: %s", text)
		}
	}
}
