//go:build interop

package interop_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// namespaceVariable marks a test program that runs in a network namespace of its own.
const namespaceVariable = "INTEROP_NAMESPACE"

// inNamespace runs a test in a network namespace of its own. It has only a loopback with more addresses, and a copy of /etc, so that
// names resolve as the test wants and no packet leaves the machine. For that the test program runs itself again.
func inNamespace(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	if os.Getenv(namespaceVariable) != "" {
		furnishOnce.Do(setUpNamespace)
		if setUpError != nil {
			t.Fatal(setUpError)
		}
		run(t)
		return
	}
	if *live || *record {
		program(t, ref)
	}
	if !*record {
		program(t, tether)
	}
	tethertest.NeedBubblewrap(t)
	for _, tool := range []string{"ip", "mount", "cp", "curl", "perl"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.CannotRun(t, tool+" is not installed")
		}
	}
	if os.Geteuid() != 0 {
		need.CannotRun(t, "needs root for a network namespace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run="+only(t.Name()), "-test.timeout="+flag.Lookup("test.timeout").Value.String(),
		fmt.Sprint("-test.v=", testing.Verbose()), fmt.Sprint("-show=", *show), fmt.Sprint("-live=", *live), fmt.Sprint("-record=", *record))
	cmd.Env = append(os.Environ(), namespaceVariable+"=1", "TETHER_BIN="+suite.bin[tether])
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		need.CannotRun(t, "no network namespace: "+err.Error())
	}
	if err != nil || testing.Verbose() {
		t.Logf("in a network of its own:\n%s", out)
	}
	if err != nil {
		t.Error(err)
	}
}

// only is the pattern for one test, with the subtests that were asked for.
func only(test string) string {
	pattern := "^" + test + "$"
	first, sub, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	if ok && !strings.Contains(first, "|") { // else it may be meant for another test
		pattern += "/" + sub
	}
	return pattern
}

var (
	furnishOnce sync.Once
	setUpError  error
)

// The hosts file of the namespace. 11.0.0.1 stands for the internet.
const hostsFile = `127.0.0.1 localhost
::1 localhost ip6-localhost
11.0.0.1 pub.example a.pub.example b.a.pub.example pub2.example sub.pub2.example denied.example other.example apub.example
11.0.0.1 xn--mnchen-3ya.example under_score.example single
8.8.8.8 google8.example
127.0.0.1 loop.example foo.localhost
10.1.2.3 ten.example
169.254.169.254 meta.example
2001:4860:4860::8888 pub6.example
64:ff9b::7f00:1 nat64.example
2001:db8::5 doc6.example
192.88.99.1 relay.example
11.0.0.1 mixed.example
127.0.0.1 mixed.example
`

// Addresses of the loopback, beside its own.
var (
	moreAddresses  = []string{"11.0.0.1", "8.8.8.8", "10.1.2.3", "169.254.169.254", "192.88.99.1"}
	moreAddresses6 = []string{"2001:4860:4860::8888", "64:ff9b::7f00:1", "2001:db8::5", "fd00::5"}
)

// setUpNamespace sets up the namespace of this program.
func setUpNamespace() {
	etc := filepath.Join(suite.dir, "etc")
	script := "set -e\nip link set lo up\n"
	for _, a := range moreAddresses {
		script += "ip addr add " + a + "/32 dev lo\n"
	}
	for _, a := range moreAddresses6 {
		script += "ip -6 addr add " + a + "/128 dev lo nodad\n"
	}
	script += "test -z \"$(ip route show default)\"\nmkdir $1\nmount -t tmpfs none $1\ncp -a /etc/. $1\nmount --move $1 /etc\n"
	if out, err := exec.Command("sh", "-c", script, "sh", etc).CombinedOutput(); err != nil {
		setUpError = fmt.Errorf("set up the namespace: %w\n%s", err, out)
		return
	}
	for name, content := range map[string]string{
		"hosts": hostsFile, "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		path := filepath.Join("/etc", name)
		os.Remove(path) // it may be a link
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			setUpError = err
			return
		}
	}
}

// The ports of the world's services.
const (
	webPort    = 80 // and 443, in the clear too
	altWebPort = 8080
	echoPort   = 7777 // UDP
)

// openWorld serves the hosts that processes try to reach, until the test ends.
func openWorld(t *testing.T) {
	t.Helper()
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	for _, port := range []int{webPort, 443, altWebPort} {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(greet)}
		serving.Go(func() { s.Serve(l) }) // ends with Close
		t.Cleanup(func() { s.Close() })
	}
	echo, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { echo.Close() })
	serving.Go(func() { // ends with Close
		buf := make([]byte, 1500)
		for {
			n, from, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			echo.WriteTo(append([]byte("echo "), buf[:n]...), from)
		}
	})
	openNames(t, &serving)
}

// greet answers with a description of the request.
func greet(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var headers []string
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Forwarded-For", "Via", "Te", "X-Kept"} {
		if v := r.Header.Values(name); len(v) > 0 {
			headers = append(headers, name+": "+strings.Join(v, ", "))
		}
	}
	local, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "hello %s %s host=%s at=%s headers=%q body=%q\n", r.Method, r.RequestURI, r.Host, local, headers, body)
}

// rebindName resolves to another address with each query: first a public one, then the loopback.
const rebindName = "rebind.example"

// rebindAsked counts the queries of one product.
var rebindAsked atomic.Int32

// openNames serves the names that are not in the hosts file: rebindName, and no other.
func openNames(t *testing.T, serving *sync.WaitGroup) {
	t.Helper()
	names, err := net.ListenPacket("udp4", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { names.Close() })
	serving.Go(func() { // ends with Close
		buf := make([]byte, 1500)
		for {
			n, from, err := names.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			switch {
			case q.Name.String() != rebindName+".":
				m.RCode = dnsmessage.RCodeNameError
			case q.Type == dnsmessage.TypeA:
				address := [4]byte{11, 0, 0, 1}
				if rebindAsked.Add(1)%2 == 0 {
					address = [4]byte{127, 0, 0, 1}
				}
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: address}})
			}
			if answer, err := m.Pack(); err == nil {
				names.WriteTo(answer, from)
			}
		}
	})
}

// probeTimeout bounds one attempt to reach something through a proxy.
const probeTimeout = 15 * time.Second
