package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tetherexec/tether/internal/console/web"
	"github.com/tetherexec/tether/internal/tethertest"
)

var shots = flag.String("shots", "", "`DIRECTORY` for pictures of the page: writes those that docs/console.md shows")

// chromium is the browser of all tests.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	tethertest.StopIgnoringSignals()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	program := findChromium()
	if program == "" {
		fmt.Println("chromium is not installed: the console's page is not tested. scripts/need-chromium installs it")
		if os.Getenv("CI") == "" {
			return 0
		}
		return 1
	}
	if files, err := web.Files(); err != nil || files["index.html.gz"] == nil {
		fmt.Println("the console's page is not built, and not tested: scripts/build-console builds it")
		if os.Getenv("CI") == "" {
			return 0
		}
		return 1
	}
	home, err := os.MkdirTemp("", "console-browser-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(home)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(home),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("no-pings", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"), // no traffic beyond loopback
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	defer release()
	ctx, end := chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Printf("chromium does not start: %v\n", err)
		return 1
	}
	chromium = ctx
	return m.Run()
}

func findChromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
