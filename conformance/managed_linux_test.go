package conformance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest"
)

// enforce returns the parameters of a start with a managed network, and more parameters.
func enforce(more ...map[string]any) map[string]any {
	params := map[string]any{"enforceManagedNetwork": true}
	for _, m := range more {
		maps.Copy(params, m)
	}
	return params
}

var stdinPipe = map[string]any{"pipeStdin": true}

// set sets a variable for commands and for the texts of rows.
func (fx *fixture) set(name, value string) {
	if fx.vars == nil {
		fx.vars = map[string]string{}
	}
	fx.vars[name] = value
}

// openSite makes $SITE, a web site of the host.
func (fx *fixture) openSite() {
	fx.site = newSite(fx.t, "tcp", "127.0.0.1:0")
	fx.set("SITE", fx.site.addr())
}

// prepare is a setup: a site, and a proxy that the client has on the host.
func prepare(fx *fixture) {
	fx.openSite()
	fx.proxy = newClientProxy(fx.t)
	fx.set("HTTP_PROXY", "http://"+fx.proxy.addr())
	fx.set("http_proxy", "http://localhost:"+fx.proxy.port()) // the only spelling that curl takes for plain HTTP
	fx.set("ALL_PROXY", "socks5h://"+fx.proxy.addr())
	fx.set("PREPARED", fx.proxy.addr())
}

// prepareHeld is prepare, with $HELD for a listener inside.
func prepareHeld(fx *fixture) {
	prepare(fx)
	fx.reserve()
}

// reserve makes $HELD, a port without a listener on the host while the test runs. It is outside of the range that the kernel
// gives out.
func (fx *fixture) reserve() {
	fx.t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	fx.check(err)
	fx.t.Cleanup(func() { unix.Close(fd) })
	for range 1000 {
		port := 10_000 + rand.IntN(10_000)
		if unix.Bind(fd, &unix.SockaddrInet4{Port: port}) == nil {
			fx.set("HELD", fmt.Sprint(port))
			return
		}
	}
	fx.t.Fatal("no port is free")
}

// variables is a setup that only sets variables, in pairs.
func variables(pairs ...string) func(*fixture) {
	return func(fx *fixture) {
		for i := 0; i < len(pairs); i += 2 {
			fx.set(pairs[i], pairs[i+1])
		}
	}
}

// directAttempts is a script that connects to listeners of the host without the proxy.
const directAttempts = `for to in $SITE $PREPARED 127.0.0.1:$PORT; do echo direct $($PROBE connect-tcp $to); done; `

var (
	directRefused = []string{`(?:direct connect-tcp: ECONNREFUSED\n){3}`}
	throughProxy  = "^" + proxyText + " GET http://any.example/x$"
)

// siteNotReached checks that the site had no connection.
func siteNotReached(t *testing.T, fx *fixture, _ outcome) {
	t.Helper()
	if n := fx.site.visited(); n != 0 {
		t.Errorf("the site was reached %d times: %q", n, fx.site.sent())
	}
}

func managedRows() []row {
	const (
		needed      = "failed to prepare host proxy routing bridge: managed proxy mode requires "
		noVariables = needed + "proxy environment variables$"
		noEndpoints = needed + "parseable loopback proxy endpoints$"
	)
	wn := workspaceOnly()
	refused := func(id, text string, pairs ...string) row {
		return row{id: id, policy: wn, params: enforce(), setup: variables(pairs...), script: `echo ran; touch n`,
			exit: 101, denied: yes, out: []string{text}, not: []string{"^ran"}, host: []string{"-$WS/n"}}
	}
	with := func(r row, policy policy, more map[string]any) row {
		r.policy, r.params = policy, enforce(more)
		return r
	}
	rows := []row{
		refused("M01", noVariables),
		with(refused("M01-tty", strings.TrimSuffix(noVariables, "$")+`\r?$`), wn, tty),
		with(refused("M01-net", noVariables), wn.net(), nil),
		with(refused("M01-read-only", noVariables), readOnly(), nil),
		with(refused("M01-disabled", noVariables), disabled(), nil),
		with(refused("M01-managed", noVariables), wn, map[string]any{"managedNetwork": map[string]any{"loopbackPorts": []int{1, 2}}}),
		refused("M01-empty", noVariables, "HTTP_PROXY", "", "NO_PROXY", "x", "MY_HTTP_PROXY", "http://127.0.0.1:1"),
		{id: "M01-draft", params: map[string]any{"sandbox": map[string]any{"mode": "require", "policy": map[string]any{"type": "read-only"}, "sandboxPolicyCwd": "/",
			"windowsSandboxLevel": "disabled", "enforceManagedNetwork": true}}, kind: "linux-seccomp", script: `echo ran`, exit: 101, denied: yes,
			out: []string{noVariables}, not: []string{"^ran"}, Reference: "the form is refused"},
		refused("M02", noEndpoints, "HTTP_PROXY", "http://10.1.2.3:8080"),
		{id: "M03", policy: wn, params: enforce(), setup: prepare, script: `env; ` + directAttempts + `
			$PROBE socket unix stream; $PROBE socketpair unix; $PROBE socket netlink raw; curl -sS http://any.example/x`,
			out:   append([]string{"^socket: EPERM\nok\nsocket: EPERM", throughProxy}, directRefused...),
			check: checkRewritten},
		{id: "M03-socks", policy: wn, params: enforce(), setup: prepare, script: `curl -sS --socks5-hostname ${ALL_PROXY#socks5h://} http://any.example/x`,
			out: []string{"^" + proxyText + " GET /x"}, check: siteNotReached},
		{id: "M04", policy: wn, params: enforce(stdinPipe), setup: prepareHeld, probe: "hold-tcp 127.0.0.1:$HELD", drive: unreachable},
		{id: "M04-any", policy: wn, params: enforce(stdinPipe), setup: prepareHeld, probe: "hold-tcp 0.0.0.0:$HELD", drive: unreachable},
		{id: "M05", policy: wn, params: enforce(map[string]any{"managedNetwork": map[string]any{"allowLocalBinding": false}}), setup: prepare,
			script: `sleep 60 | $PROBE hold-tcp 127.0.0.1:0 > said & until read _ port < said; do :; done 2> /dev/null
				$PROBE connect-tcp 127.0.0.1:$port; kill $!`, out: []string{"^ok$"}},
		{id: "M06", policy: disabled(), params: enforce(), setup: prepare, script: directAttempts + `curl -sS http://any.example/x
			echo x > $OUT/n; grep -E '^(CapEff|Seccomp):' /proc/self/status; ls /dev`,
			out:  append([]string{throughProxy, `CapEff:\s+0+$`, `Seccomp:\s+2$`}, directRefused...),
			not:  []string{`^(sda|vda|kvm|mem|ttyS0|hvc0)$`},
			host: []string{"+$OUT/n"}, check: siteNotReached},
		{id: "M06-external", policy: external(), params: enforce(), setup: prepare, script: directAttempts + `curl -sS http://any.example/x; echo x > $OUT/n`,
			out: append([]string{throughProxy}, directRefused...), host: []string{"+$OUT/n"}, check: siteNotReached},
		{id: "M07", policy: wn.net(), params: enforce(), setup: prepare, script: directAttempts + `curl -sS http://any.example/x`,
			out: append([]string{throughProxy}, directRefused...), check: siteNotReached},
		{id: "M08", policy: wn, params: map[string]any{"managedNetwork": map[string]any{"loopbackPorts": []int{1}}}, setup: prepare,
			script: `env; $PROBE socket inet stream`, exit: 1, denied: no, out: []string{"^socket: EPERM", "^HTTP_PROXY=http://$PREPARED$", "^ALL_PROXY=socks5h://$PREPARED$"}},
		{id: "M09", policy: wn, params: enforce(), setup: deadProxy, script: `curl -sS http://$SITE/; echo inner $?`,
			out: []string{"^inner (52|56)$"}, check: siteNotReached},
		{id: "M10", policy: wn.also("useLegacyLandlock", true), params: enforce(), setup: prepare, script: directAttempts + `curl -sS http://any.example/x`,
			out: append([]string{throughProxy}, directRefused...), check: siteNotReached},
		{id: "M11", policy: wn, params: enforce(map[string]any{"managedNetwork": map[string]any{"dangerouslyAllowAllUnixSockets": true}}),
			setup: func(fx *fixture) { prepare(fx); fx.socket() }, script: `$PROBE connect-unix $SOCK; ` + directAttempts,
			out: append([]string{"^ok$"}, directRefused...)},
		{id: "M11-not", policy: wn, params: enforce(map[string]any{"managedNetwork": map[string]any{}}),
			setup: func(fx *fixture) { prepare(fx); fx.socket() }, probe: "connect-unix $SOCK", exit: 1, denied: no, out: []string{"EPERM socket"}},
		{id: "M12", policy: unconfined(), params: enforce(), probe: "connect-tcp 127.0.0.1:$PORT"},
		// Certificates that the client's proxy needs to be trusted.
		{id: "M13", policy: minimalRead(), params: enforce(), setup: certificates("$OUT/ca.pem"), script: `cat $SSL_CERT_FILE; ls -A $OUT; cat $OUT/secret.txt; echo x >> $SSL_CERT_FILE`,
			exit: 2, denied: yes, out: []string{"^trust me\nca.pem\n", "secret.txt: " + textNOENT, "ca.pem: " + textROFS}, check: holds("$OUT/ca.pem", "trust me\n"), Reference: ownCertificates},
		{id: "M13-link", policy: minimalRead(), params: enforce(), script: `cat $SSL_CERT_FILE; echo $SSL_CERT_FILE`, setup: func(fx *fixture) {
			certificates("$OUT/ca.pem")(fx)
			fx.symlink("$OUT/ca.pem", "$FX/alias.pem")
			fx.set("SSL_CERT_FILE", fx.path("$FX/alias.pem"))
		}, out: []string{"^trust me\n$OUT/ca.pem$"}, Reference: ownCertificates},
		{id: "M13-denied", policy: minimalRead().deny("$OUT"), params: enforce(), setup: certificates("$OUT/ca.pem"), script: `cat $SSL_CERT_FILE`, exit: 1, not: []string{"trust me"}},
		{id: "M13-directory", policy: minimalRead(), params: enforce(), setup: func(fx *fixture) { prepare(fx); fx.set("SSL_CERT_FILE", fx.out) },
			script: `cat $OUT/secret.txt`, exit: 1, denied: no, out: []string{textNOENT}},
		{id: "M13-missing", policy: minimalRead(), params: enforce(), setup: func(fx *fixture) { prepare(fx); fx.set("SSL_CERT_FILE", fx.out+"/none") },
			script: `cat $SSL_CERT_FILE`, exit: 1, denied: no, out: []string{textNOENT}},
		{id: "M13-unmanaged", policy: minimalRead().net(), setup: certificates("$OUT/ca.pem"), script: `cat $SSL_CERT_FILE`, exit: 1, denied: no, out: []string{textNOENT}},
	}
	for i, value := range []string{
		"http://127.0.0.1:0", "http://127.0.0.2:80", "http://localhost.example:80", "http://[::ffff:127.0.0.1]:80", "http://127.0.0.1:99999",
		"http://127.1:80", "http://127.0.0.1@10.1.2.3:80", "http://127.0.0.1:80@10.1.2.3", "http://[::1", "http://", "://", "http://0.0.0.0:80",
		"http://2130706433:80", "http://127.0.0.1:-1", "http://10.1.2.3#@127.0.0.1:80", `http://10.1.2.3\@127.0.0.1:80`,
	} {
		rows = append(rows, refused(fmt.Sprintf("M02-%d", i), noEndpoints, "HTTPS_PROXY", value))
	}
	return rows
}

const ownCertificates = "only certificates of its own proxy are made readable"

// certificates is a setup: the client's proxy is there, and SSL_CERT_FILE names a file.
func certificates(file string) func(*fixture) {
	return func(fx *fixture) {
		prepare(fx)
		fx.write(file, "trust me\n")
		fx.set("SSL_CERT_FILE", fx.path(file))
	}
}

// deadProxy is a setup: nothing listens at the address of the client's proxy.
func deadProxy(fx *fixture) {
	prepare(fx)
	fx.proxy.end()
}

// checkRewritten checks that the proxy variables name ports inside the sandbox.
func checkRewritten(t *testing.T, fx *fixture, o outcome) {
	t.Helper()
	siteNotReached(t, fx, o)
	found := regexp.MustCompile(`(?m)^(HTTP_PROXY=http|http_proxy=http|ALL_PROXY=socks5h)://127\.0\.0\.1:(\d+)$`).FindAllStringSubmatch(o.stdout, -1)
	if len(found) != 3 {
		t.Fatalf("variables: %q", found)
	}
	for _, f := range found {
		if f[2] == fx.proxy.port() || f[2] != found[0][2] {
			t.Errorf("%s, and the proxy has port %s on the host", f[0], fx.proxy.port())
		}
	}
}

var heldPort = regexp.MustCompile(`(?m)^port (\d+)$`)

// unreachable tries to connect to a listener of a command.
func unreachable(t *testing.T, p *process) {
	o := p.until(t, "port", func(o outcome) bool { return heldPort.MatchString(o.stdout) })
	port := heldPort.FindStringSubmatch(o.stdout)[1]
	for _, host := range []string{"127.0.0.1", "::1"} {
		if conn, err := net.Dial("tcp", net.JoinHostPort(host, port)); err == nil {
			conn.Close()
			t.Errorf("a listener inside was reached at %s:%s", host, port)
		}
	}
	p.write(t, "end\n")
}

// Every proxy variable is rewritten to the port of its own proxy. Scheme, user and the rest of its value stay.
func TestManagedVariables(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.handOver()
		one, two := newClientProxy(t), newClientProxy(t)
		names := strings.Fields(`HTTP_PROXY HTTPS_PROXY WS_PROXY WSS_PROXY ALL_PROXY FTP_PROXY YARN_HTTP_PROXY YARN_HTTPS_PROXY
			NPM_CONFIG_HTTP_PROXY NPM_CONFIG_HTTPS_PROXY NPM_CONFIG_PROXY BUNDLE_HTTP_PROXY BUNDLE_HTTPS_PROXY PIP_PROXY
			DOCKER_HTTP_PROXY DOCKER_HTTPS_PROXY npm_config_https_proxy Http_Proxy`)
		want := map[string]string{}
		for i, name := range names {
			proxy, number := one, "ONE"
			if i%2 == 1 {
				proxy, number = two, "TWO"
			}
			forms := []string{"http://%s:%s", "socks5h://me:se%%40cret@%s:%s", "%s:%s", "https://%s:%s"}
			hosts := []string{"127.0.0.1", "localhost", "LocalHost"}
			fx.set(name, fmt.Sprintf(forms[i%len(forms)], hosts[i%len(hosts)], proxy.port()))
			want[name] = fmt.Sprintf(forms[i%len(forms)], "127.0.0.1", number)
		}
		for name, value := range map[string]string{"https_proxy": "http://10.1.2.3:80", "NO_PROXY": "localhost", "OTHER_PROXY": "http://127.0.0.1:1"} {
			fx.set(name, value)
			want[name] = value
		}
		s := a.acquire(t)
		p := s.mustStart(t, fx, row{policy: workspaceOnly(), params: enforce(), argv: []string{"/usr/bin/env"}})
		o := p.finish(t)
		port := func(name string) string {
			found := regexp.MustCompile(`(?m)^` + name + `=.*:(\d+)$`).FindStringSubmatch(o.stdout)
			if found == nil {
				t.Fatalf("no %s in %s", name, o.stdout)
			}
			return found[1]
		}
		names1, names2 := port("HTTP_PROXY"), port("HTTPS_PROXY")
		if names1 == names2 {
			t.Errorf("two proxies have port %s", names1)
		}
		for name, value := range want {
			value = strings.NewReplacer("ONE", names1, "TWO", names2).Replace(value)
			if !strings.Contains("\n"+o.stdout, "\n"+name+"="+value+"\n") {
				t.Errorf("no %s=%s in %s", name, value, o.stdout)
			}
		}
	})
}

// A proxy that several processes share learns the process of a connection by a token, which the process itself does not see.
func TestManagedAttribution(t *testing.T) {
	token := strings.Repeat("t0k3n/", 21) + "ab" // as long as it may be: 128 bytes
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		prepare(fx)
		fx.set("CODEX_NETWORK_PROXY_ATTRIBUTION", token)
		fx.handOver()
		p := a.acquire(t).mustStart(t, fx, row{policy: workspaceOnly(), params: enforce(), script: `env | grep -c ATTRIBUTION
			curl -sS http://any.example/x; curl -sS --socks5-hostname ${ALL_PROXY#socks5h://} http://any.example/x; tr '\0' '\n' < /proc/1/environ; cat /proc/1/cmdline`})
		row{out: []string{"^0$", throughProxy, "^" + proxyText + " GET /x"}, not: []string{"t0k3n"}}.checkOutcome(t, fx, p.finish(t))
		greeting := binary.BigEndian.AppendUint16([]byte("\x00CDXPXY1"), uint16(len(token)))
		greeting = append(greeting, token...)
		began := fx.proxy.began()
		if len(began) != 2 || !bytes.Equal(began[0], append(greeting[:len(greeting):len(greeting)], 'G')) || !bytes.Equal(began[1], append(greeting[:len(greeting):len(greeting)], 5)) {
			t.Errorf("connections began with %q", began)
		}
	})
}

// Without a token, connections begin with the bytes of the client.
func TestManagedNoAttribution(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		prepare(fx)
		fx.handOver()
		p := a.acquire(t).mustStart(t, fx, row{policy: workspaceOnly(), params: enforce(), script: `curl -sS http://any.example/x`})
		row{out: []string{throughProxy}}.checkOutcome(t, fx, p.finish(t))
		if began := fx.proxy.began(); len(began) != 1 || string(began[0]) != "G" {
			t.Errorf("connections began with %q", began)
		}
	})
}

// If the proxy dies while a command runs, the command has no network any more.
func TestManagedProxyDies(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		prepare(fx)
		fx.handOver()
		s := a.acquire(t)
		p := s.mustStart(t, fx, row{policy: workspaceOnly(), params: enforce(stdinPipe),
			script: `curl -sS http://$SITE/1; read go; curl -sS http://$SITE/2; echo inner $?; $PROBE connect-tcp $SITE`})
		p.says(t, "/1\n")
		fx.proxy.end()
		p.write(t, "go\n")
		row{exit: 1, denied: no, out: []string{"^" + proxyText, "^inner (52|56)$", "^connect-tcp: ECONNREFUSED"}, check: siteNotReached}.checkOutcome(t, fx, p.finish(t))
		row{}.checkHost(t, fx, s)
	})
}

// The proxy of a managed network has no listener on the host, and its descriptors are closed when the process ends.
func TestManagedLeavesNothing(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.handOver()
		s := &scriptRunner{instance: a.own(t, a.argv(), nil), fx: fx}
		once := func() {
			t.Helper()
			p := s.script(t, workspaceOnly(), `exec bash -c 'exec 3<> /dev/tcp/127.0.0.1/${HTTP_PROXY##*:} && echo open; read go'`, enforce(stdinPipe, networkProxy(nil)))
			p.says(t, "open")
			if ports := s.listens(t); len(ports) != 0 {
				t.Errorf("the server listens on %v", ports)
			}
			p.write(t, "go\n")
			p.finish(t)
		}
		once() // opens what the server keeps open from its first use on
		before := len(s.descriptors(t))
		for range 3 {
			once()
		}
		tethertest.Eventually(t, func() error {
			if now := len(s.descriptors(t)); now > before {
				return fmt.Errorf("%d descriptors are open, %d were before", now, before)
			}
			return nil
		})
	})
}

// A shell that starts from a snapshot has the proxy ports of its own network, whether the variables come from the request, the
// server or an own proxy.
func TestManagedSnapshot(t *testing.T) {
	notForReference(t, "it has its own rules for this")
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.openSite()
		fx.write("$FX/home/.bash_profile", "export FROM_PROFILE=yes\n")
		fx.handOver()
		fx.proxy = newClientProxy(t)
		proxies := map[string]string{"http_proxy": "http://" + fx.proxy.addr(), "HTTP_PROXY": "http://" + fx.proxy.addr()}
		argv := append([]string{"/usr/bin/env"}, a.argv()...)
		for name, value := range proxies {
			argv = slices.Insert(argv, 1, name+"="+value)
		}
		s := a.own(t, argv, nil)
		env := both(toAny(fx.env()), map[string]any{"HOME": fx.dir + "/home"})
		for name, way := range map[string]struct {
			params map[string]any
			says   string
		}{
			"given":     {map[string]any{"env": both(env, toAny(proxies))}, throughProxy},
			"inherited": {map[string]any{"env": env, "envPolicy": map[string]any{"inherit": "all", "ignoreDefaultExcludes": true, "exclude": []string{}, "set": map[string]any{}, "includeOnly": []string{}}}, throughProxy},
			"own":       {both(map[string]any{"env": env}, networkProxy(loopback)), siteText},
		} {
			url := "http://any.example/x"
			if name == "own" {
				url = "http://" + fx.site.addr() + "/"
			}
			for i := range 3 {
				params := enforce(way.params, map[string]any{"processId": fmt.Sprint(name, i), "shellSnapshot": map[string]any{"scopeId": name, "shell": map[string]any{"name": "bash", "path": "/bin/bash"}}})
				p := s.mustStart(t, fx, row{policy: workspaceOnly(), params: params, argv: []string{"/bin/bash", "-lc", "echo $FROM_PROFILE; curl -sS " + url}})
				o := p.finish(t)
				if !regexp.MustCompile(`(?m)^yes$`).MatchString(o.stdout) || !regexp.MustCompile("(?m)"+way.says).MatchString(o.stdout) {
					t.Errorf("%s %d: %s", name, i, o.all)
				}
			}
		}
	})
}
