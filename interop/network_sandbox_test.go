//go:build interop

package interop_test

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// The ports of the proxies that a client has prepared.
const preparedPort, preparedPort6 = 3128, 3129

// openPrepared serves proxies that a client could have prepared. They answer with the bytes of the request, up to the end of its
// header.
func openPrepared(t *testing.T) {
	t.Helper()
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	for _, address := range []string{fmt.Sprintf("127.0.0.1:%d", preparedPort), fmt.Sprintf("[::1]:%d", preparedPort6)} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		serving.Go(func() { // ends with Close
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() { answerPrepared(c) }) // ends with its deadline
			}
		})
	}
}

func answerPrepared(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(probeTimeout))
	in := bufio.NewReader(c)
	first, err := in.ReadString('\n')
	for line := first; err == nil && line != "\r\n"; {
		line, err = in.ReadString('\n')
	}
	if err == nil {
		body := fmt.Sprintf("prepared %q\n", first)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	}
}

// curl is a script that prints the status of each URL and the message of curl, through the proxies of the environment unless the
// arguments say otherwise.
func curl(arguments string, urls ...string) string {
	var b strings.Builder
	for _, u := range urls {
		fmt.Fprintf(&b, "curl -s -m 10 %s -w '%%{http_code} %%{exitcode}\\n' %s; ", arguments, u)
	}
	return b.String()
}

// attempts is a command that connects directly and prints the errors: 111 is "connection refused", 1 "not permitted".
func attempts(ports ...int) []string {
	script := "sub try { print $_[0], \" \", $_[1] ? \"works\" : $!+0, \"\\n\" } use Socket; "
	for _, port := range ports {
		script += fmt.Sprintf("socket(S, 2, 1, 0) or print \"no socket\\n\"; try(\"connect\", connect(S, pack_sockaddr_in(%d, INADDR_LOOPBACK))); ", port)
	}
	return []string{"/usr/bin/perl", "-e", script + `try("world", socket(S, 2, 1, 0) && connect(S, pack_sockaddr_in(80, inet_aton("11.0.0.1"))));` +
		`try("unix", socket(S, 1, 1, 0)); try("pair", socketpair(A, B, 1, 1, 0)); try("netlink", socket(S, 16, 3, 0)); try("packet", socket(S, 17, 3, 0)); try("vsock", socket(S, 40, 1, 0));` +
		`socket(L, 2, 1, 0); try("listen", bind(L, pack_sockaddr_in(0, INADDR_ANY)) && listen(L, 1));`}
}

// prepared are the members of a start with proxies that the client has prepared.
func prepared(env string) string {
	return fmt.Sprintf(`"enforceManagedNetwork":true,"managedNetwork":{"loopbackPorts":[%d,%d]},"env":{"PATH":"/usr/bin:/bin",%s}`, preparedPort, preparedPort6, env)
}

const (
	bothPrepared = `"HTTP_PROXY":"http://127.0.0.1:3128","http_proxy":"http://127.0.0.1:3128","ALL_PROXY":"http://localhost:3128"`
	disabled     = `{"type":"disabled"}`
	worldOnly    = `"domains":{"pub.example":"allow","denied.example":"deny"}`
	world        = "http://pub.example/"
)

// noAnswer is a script with a request through a proxy that closes the connection. Chance decides whether curl sees an end or a reset.
const noAnswer = `curl -s ` + world + `; case $? in 52 | 56) echo no answer;; esac`

// managedProxy is a start with its own proxy in a managed network.
func managedProxy(settings string) string {
	return `"enforceManagedNetwork":true,` + networkProxy(settings, "")
}

// managedNetworkRows are scenarios of the managed network. Ports are removed from their output.
var managedNetworkRows = []sandboxRow{
	{id: "M03", policy: workspaceOnly, start: prepared(bothPrepared), argv: attempts(preparedPort, webPort)},
	{id: "M03 through", policy: workspaceOnly, start: prepared(bothPrepared), script: curl("", world)},
	{id: "M06", intent: intentFor(disabled, ""), start: prepared(bothPrepared), argv: attempts(preparedPort, webPort)},
	{id: "M06 through", intent: intentFor(disabled, ""), start: prepared(bothPrepared), script: curl("", world) + `echo x > $OUT/n; grep -E '^(CapEff|Seccomp:)' /proc/self/status; ls /dev | wc -l`},
	{id: "M07", policy: workspaceOnly, network: "enabled", start: prepared(bothPrepared), argv: attempts(preparedPort, webPort)},
	{id: "M07 through", policy: workspaceOnly, network: "enabled", start: prepared(bothPrepared), script: curl("", world)},
	{id: "M09", policy: workspaceOnly, start: prepared(`"http_proxy":"http://127.0.0.1:9"`), script: noAnswer},
	{id: "M10", policy: workspaceOnly, over: `"useLegacyLandlock":true`, start: prepared(bothPrepared), script: curl("", world)},
	{id: "M20", intent: "null", start: networkProxy(worldOnly, ""), script: curl("", world, "http://denied.example/", "http://other.example/")},
	{id: "M21", policy: workspaceOnly, start: managedProxy(worldOnly), script: curl("", world, "http://denied.example/", "http://other.example/") + curl("--noproxy '*'", "http://11.0.0.1/") + `exit 1`},
	{id: "M21 socks", policy: workspaceOnly, start: managedProxy(worldOnly), script: curl("-x $ALL_PROXY", world, "http://denied.example/")},
	{id: "M21 tunnel", policy: workspaceOnly, start: managedProxy(worldOnly), script: curl("-p", world, "http://denied.example/")},
	{id: "M21 direct", policy: workspaceOnly, start: managedProxy(worldOnly), argv: attempts(webPort)},
	{id: "M24", policy: workspaceOnly, start: managedProxy(worldOnly + `,"mode":"limited"`), script: curl("-d x", world) + curl("", world)},
	{id: "M25", policy: workspaceOnly, start: networkProxy(worldOnly, ""), script: curl("", world)},
	{id: "M25 enabled", policy: workspaceOnly, network: "enabled", start: networkProxy(worldOnly, ""), script: curl("", world, "http://denied.example/") + curl("--noproxy '*'", "http://11.0.0.1/")},
	{id: "local binding", policy: workspaceOnly, start: managedProxy(`"domains":{"127.0.0.1":"allow","localhost":"allow"},"allowLocalBinding":true`),
		script: curl("--noproxy ''", "http://127.0.0.1/", world) + curl("", "http://127.0.0.1/")},
	{id: "attribution", policy: workspaceOnly, start: prepared(bothPrepared + `,"CODEX_NETWORK_PROXY_ATTRIBUTION":"token-1"`), script: curl("", world) + `env | grep -c ATTRIBUTION`},
	{id: "attribution, too long", policy: workspaceOnly, start: prepared(bothPrepared + `,"CODEX_NETWORK_PROXY_ATTRIBUTION":"` + strings.Repeat("t", 129) + `"`), script: noAnswer,
		differs: failsClosed("managed proxy mode requires an attribution of 1 to 128 bytes")},
	{id: "attribution, empty", policy: workspaceOnly, start: prepared(bothPrepared + `,"CODEX_NETWORK_PROXY_ATTRIBUTION":""`), script: noAnswer,
		differs: failsClosed("managed proxy mode requires an attribution of 1 to 128 bytes")},
	{id: "IPv6", policy: workspaceOnly, start: prepared(`"http_proxy":"http://[::1]:3129"`), script: curl("", world),
		differs: ends("a proxy on ::1 is a proxy on the loopback", 0, false, stdout("prepared \"GET http://pub.example/ HTTP/1.1\\r\\n\"\n200 0\n"))},
	{id: "unix sockets", policy: workspaceOnly, start: strings.Replace(prepared(bothPrepared), `"loopbackPorts"`, `"dangerouslyAllowAllUnixSockets":true,"loopbackPorts"`, 1), argv: attempts(webPort)},
	{id: "unix sockets of a proxy", policy: workspaceOnly, start: managedProxy(worldOnly + `,"dangerouslyAllowAllUnixSockets":true`), argv: attempts(webPort)},
}

// TestNetworkRows plays scenarios of the managed network. It compares sandboxOutcome.
func TestNetworkRows(t *testing.T) {
	t.Parallel()
	inNamespace(t, func(t *testing.T) {
		openWorld(t)
		openPrepared(t)
		for _, row := range managedNetworkRows {
			t.Run(scenario.Name(row.id), func(t *testing.T) { row.exchange().run(t) })
		}
	})
}

// childEnvironment is the comparison of environments.
const childEnvironment comparison = "every variable of the process; of ports only which are equal"

// TestNetworkEnvironment compares the whole environment of processes.
func TestNetworkEnvironment(t *testing.T) {
	t.Parallel()
	const foreign = `"env":{"PATH":"/usr/bin:/bin","A":"1","Http_Proxy":"http://10.0.0.1:1","HTTP_PROXY":"http://10.0.0.1:1","no_proxy":"x","CODEX_NETWORK_PROXY_ATTRIBUTION":"t",` +
		`"CODEX_NETWORK_PROXY_ACTIVE":"0","SSL_CERT_FILE":"/etc/ssl/x.pem","RSYNC_PROXY":"10.0.0.1:1"}`
	inNamespace(t, func(t *testing.T) {
		openPrepared(t)
		exchange{name: "environment", compares: childEnvironment, play: func(p *player) {
			f := newFixture(p.t)
			for _, row := range []struct{ label, members string }{
				{"proxy", networkProxy("", "")},
				{"proxy without SOCKS", networkProxy(`"enableSocks5":false`, "")},
				{"proxy with local binding", networkProxy(`"allowLocalBinding":true`, "")},
				{"proxy over foreign ones", foreign + "," + networkProxy("", "")},
				{"proxy and server's environment", `"envPolicy":{"inherit":"all","ignoreDefaultExcludes":true,"exclude":[],"includeOnly":[],"set":{}},` + networkProxy("", "")},
				{"sandbox and proxy", `"sandbox":` + workspaceOnly.intent("restricted", "") + "," + networkProxy("", "")},
				{"managed proxy", `"sandbox":` + workspaceOnly.intent("restricted", "") + "," + managedProxy("")},
				{"managed proxy without SOCKS", `"sandbox":` + workspaceOnly.intent("restricted", "") + "," + managedProxy(`"enableSocks5":false`)},
				{"managed proxy with local binding", `"sandbox":` + workspaceOnly.intent("enabled", "") + "," + managedProxy(`"allowLocalBinding":true`)},
				{"managed proxy over foreign ones", foreign + `,"sandbox":` + workspaceOnly.intent("restricted", "") + "," + managedProxy("")},
				{"prepared proxies", `"sandbox":` + workspaceOnly.intent("restricted", "") + "," + prepared(preparedVariables)},
				{"prepared proxy on IPv6", `"sandbox":` + workspaceOnly.intent("restricted", "") + "," + prepared(`"WS_PROXY":"http://[::1]:3129","HTTP_PROXY":"http://127.0.0.1:3128"`)},
				{"prepared proxies without sandbox", prepared(preparedVariables)},
				{"prepared proxies not enforced", `"sandbox":` + workspaceOnly.intent("enabled", "") + "," + strings.Replace(prepared(preparedVariables), `"enforceManagedNetwork":true,`, "", 1)},
			} {
				c := p.open()
				c.start("p", []string{"/usr/bin/env", "-0"}, f.expand(`"cwd":"file://$WS",`+row.members))
				events, closed := c.all("p")
				if !closed {
					p.t.Errorf("%s: %s: the process does not end", p.who, row.label)
				}
				p.note(row.label, comparableVariables(p.who, outputOf(events, "")))
			}
		}, differs: []difference{{"prepared proxy on IPv6", "a proxy on ::1 is a proxy on the loopback",
			"HTTP_PROXY=http://127.0.0.1 port 4\nPATH=/usr/bin:/bin\nPWD=$BENCH/rows/ws\nWS_PROXY=http://127.0.0.1 port 5"}}}.run(t)
	})
}

// preparedVariables name prepared proxies in each form, and other addresses.
const preparedVariables = `"HTTP_PROXY":"http://127.0.0.1:3128","https_proxy":"http://user:pa%40ss@localhost:3128/path?q","ALL_PROXY":"socks5h://127.0.0.1:3130","FTP_PROXY":"127.0.0.1:3128",` +
	`"PIP_PROXY":"http://10.1.2.3:8080","npm_config_proxy":"HTTP://LOCALHOST","YARN_HTTP_PROXY":"https://127.0.0.1/","DOCKER_HTTP_PROXY":"socks5://localhost",` +
	`"BUNDLE_HTTP_PROXY":"http://127.0.0.1:0","WSS_PROXY":"","NO_PROXY":"localhost","OTHER_PROXY":"http://127.0.0.1:3128","SSL_CERT_FILE":"/etc/ssl/x.pem"`

var anyPort = regexp.MustCompile(`(127\.0\.0\.1|\[::1\]):(\d+)`)

// comparableVariables sorts variables and numbers ports in the order of their appearance;
// those that a test has chosen stay. Three differences are meant to be: yarn gets what other
// programs get for NO_PROXY, variables for proxies are replaced in any case, and the variable
// http_proxy of npm, which npm does not know, is not set.
func comparableVariables(who product, environment string) string {
	variables := strings.Split(strings.TrimSuffix(environment, "\x00"), "\x00")
	slices.Sort(variables)
	i, ok := slices.BinarySearch(variables, "YARN_NO_PROXY=")
	proxied := slices.Contains(variables, "CODEX_NETWORK_PROXY_ACTIVE=1")
	ok = ok || i < len(variables) && strings.HasPrefix(variables[i], "YARN_NO_PROXY=")
	switch {
	case who == tether && ok && proxied && slices.Contains(variables, strings.TrimPrefix(variables[i], "YARN_")):
		variables = slices.Delete(variables, i, i+1)
	case who == ref && proxied:
		variables = slices.DeleteFunc(variables, func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return name == "Http_Proxy" || strings.EqualFold(name, "npm_config_http_proxy")
		})
	}
	seen := []string{"0", "3128", "3129", "3130"}
	return anyPort.ReplaceAllStringFunc(strings.Join(variables, "\n"), func(address string) string {
		m := anyPort.FindStringSubmatch(address)
		i := slices.Index(seen, m[2])
		if i < 0 {
			i, seen = len(seen), append(seen, m[2])
		}
		return fmt.Sprintf("%s port %d", m[1], i)
	})
}
