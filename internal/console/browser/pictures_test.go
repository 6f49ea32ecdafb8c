package browser

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

var allPictures = flag.Bool("all", false, "with -shots: pictures of each view, wide and narrow, light and dark, not only those of docs/console.md")

// documented are the pictures that docs/console.md shows.
var documented = []string{
	"overview-wide-light", "refused-wide-light", "typing-wide-dark", "find-wide-light", "recording-wide-dark",
	"list-narrow-light", "terminal-narrow-dark",
}

// maxPicture is the largest size of a picture in the repository.
const maxPicture = 100 << 10

// A shop is the project in which the commands of the pictures run. Its path is in the pictures, so it is the same on each machine.
const shop = "/tmp/webshop"

// shopFiles are the programs of the shop. They print what programs of their names might print, and do nothing.
var shopFiles = map[string]string{
	"Makefile": "test:\n\t@./run-tests\nlint:\n\t@printf 'cart/total.go:41:2: result of fmt.Sprintf is not used\\n' >&2; exit 1\n",
	"run-tests": `
ok() { printf '\033[32mok\033[0m   webshop/%-14s %s\n' "$1" "$2"; }
echo '$ go test ./...'
ok cart 0.412s; ok catalog 1.206s; ok checkout 0.877s; ok currency 0.091s; ok mail 0.310s
printf '\033[33mwarning\033[0m: payments: the sandbox account expires in 3 days\n'
printf -- '--- \033[31mFAIL\033[0m: TestRefundTwice (0.02s)\n    refund_test.go:58: balance is \033[1m-12.50\033[0m, want \033[1m0.00\033[0m\n'
printf '\033[31mFAIL\033[0m webshop/payments   0.544s\n'
ok search 2.034s; ok session 0.128s; ok shipping 0.655s
echo 'running the browser tests, 3 of 41 …'
exec sleep 600`,
	"migrate": `
printf '\033[1m3 migrations for the database "webshop"\033[0m\n\n'
printf '  0041  add column orders.refunded_at\n  0042  index payments by order\n  0043  drop table old_carts   \033[31mdeletes 18,204 rows\033[0m\n\n'
printf 'Apply them? [y/N] '
read answer`,
	"pack-assets":   `exec gzip -9 </dev/zero >/dev/null`,
	"import-prices": `exec tr '\0' '1' </dev/zero`,
	"mirror":        "curl -sS -m 5 http://telemetry.example/ping >/dev/null; exec sleep 600",
	"deploy": `
for step in 'building webshop:4f1c2a9' 'pushing 3 layers' 'starting 2 of 6' 'starting 4 of 6' 'starting 6 of 6' 'checking /health' 'moving the traffic'; do
	printf '\033[36m%s\033[0m  %s …\n' "$(date +%T)" "$step"; sleep 0.7
done
printf '\033[32mdeployed\033[0m to staging in 5 s\n'`,
	"serve":     "echo 'webshop listens on 127.0.0.1:8080'; exec sleep 600",
	"load-test": `i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo "request $i"; done | awk '{ ms = ($2 * 7919) % 400; print "GET /cart/" $2 " 200 " ms " ms"; if ($2 % 4000 == 77) print "GET /cart/" $2 " 503 payment provider did not answer" }'`,
}

func makeShop(t *testing.T) {
	if err := os.Mkdir(shop, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shop) })
	for name, text := range shopFiles {
		if name != "Makefile" {
			text = "#!/bin/sh\n" + text
		}
		if err := os.WriteFile(filepath.Join(shop, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// agent is another client of the server, through a cable.
func (r *rig) agent(name, label string) (*client.Client, *cable.Cable) {
	r.t.Helper()
	line := tethertest.LayCable(r.t, r.url)
	c, err := client.Dial(r.t.Context(), line.URL(), client.Options{Name: name, Label: label, TTL: 10 * time.Minute})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c, line
}

// TestPictures takes the pictures of the documentation (make screenshots).
func TestPictures(t *testing.T) {
	if *shots == "" {
		t.Skip("without -shots there are no pictures")
	}
	makeShop(t)
	r := newServerWith(t, console.Config{}, server.Config{SpoolLimit: 4 << 20})
	run := func(c *client.Client, cmd client.Command) {
		t.Helper()
		cmd.Dir, cmd.Env = shop, map[string]string{"MAKEFLAGS": "", "MAKELEVEL": ""} // make screenshots is not the make of the shop
		if _, err := c.Start(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	nightly, cut := r.agent("tether run", "nightly import")
	run(r.client, client.Command{Argv: []string{"./serve"}})
	run(nightly, client.Command{Argv: []string{"./pack-assets"}})
	review, frozen := r.agent("codex", "price review")
	frozen.Freeze(cable.FromServer)
	go review.Start(t.Context(), client.Command{Argv: []string{"./import-prices"}, Dir: shop}) // its answer never comes

	shopper, _ := r.agent("codex", "webshop")
	run(shopper, client.Command{Argv: []string{"./load-test"}})
	run(shopper, client.Command{Argv: []string{"./deploy", "--to", "staging"}, TTY: true, Rows: 24, Cols: 80})
	run(shopper, client.Command{Argv: []string{"make", "lint"}})
	run(shopper, client.Command{Argv: []string{"cp", "Makefile", "/etc/webshop.mk"}, Sandbox: wire.WorkspaceWrite()})
	run(shopper, client.Command{Argv: []string{"./mirror"}, Sandbox: wire.ReadOnly(), Network: &client.Network{Allow: []string{"packages.example", "*.webshop.example"}}})
	run(shopper, client.Command{Argv: []string{"./migrate"}, TTY: true, Rows: 30, Cols: 88})
	run(shopper, client.Command{Argv: []string{"make", "test"}, TTY: true, Rows: 36, Cols: 88})
	cut.Cut()
	r.open(r.url)
	r.wait("the refusal", `[...document.querySelectorAll(".command-state")].some((e) => e.textContent.startsWith("refused"))`)
	r.wait("the block", `[...document.querySelectorAll(".command-state")].some((e) => e.textContent.startsWith("blocked"))`)
	r.wait("the pause", `[...document.querySelectorAll(".command-state")].filter((e) => e.textContent.includes("silent")).length > 2`)
	r.views()
	r.clean()
}

// views shows each view, and takes its pictures.
func (r *rig) views() {
	r.take("list")
	r.choose("make test")
	r.seen("3 of 41")
	r.take("overview", "terminal")
	r.facts("make test")
	r.choose("cp Makefile")
	r.wait("the reason", `document.querySelector("#facts").textContent.includes("webshop.mk")`)
	r.take("refused")
	r.choose("mirror")
	r.wait("the decision", `document.querySelector(".decisions") !== null`)
	r.take("hosts")
	r.choose("import-prices")
	r.take("blocked")

	r.choose("load-test")
	r.press(0, "f")
	r.write("did not answer")
	r.wait("the matches", `/^1 of/.test(document.querySelector(".find-count").textContent)`)
	r.seen("did not answer")
	r.take("find")
	r.press(0, "Escape")
	r.choose("deploy")
	r.press(0, "p")
	r.wait("the end of the recording", `document.querySelector(".player")?.querySelector(".play").ariaLabel === "Play again"`)
	r.run(`const bar = document.querySelector(".scrubber"); bar.value = 3; bar.dispatchEvent(new Event("input"))`)
	r.seen("4 of 6")
	r.take("recording")
	r.click(".player .toolbar .button")

	r.choose("migrate")
	r.seen("Apply them?")
	r.click(".button.primary")
	r.wait("control", `document.querySelector(".notice").textContent.startsWith("You type")`)
	r.press(0, "y")
	r.seen("[y/N] y")
	r.take("typing")
	r.click(`[aria-haspopup="menu"]`)
	r.take("signals")
	r.click(`[aria-haspopup="menu"]`)
	r.press(ctrl|shift, "G")
	r.wait("no control", `document.querySelector(".notice").hidden`)
	r.press(ctrl, "k")
	r.take("palette")
	r.press(0, "Escape")
	r.press(0, "?")
	r.take("keys")
	r.press(0, "Escape")
	r.click(".toolbar .danger")
	r.take("end")
	r.press(0, "Escape")
}

// facts takes the picture of the column with the facts, which a narrow page shows alone.
func (r *rig) facts(name string) {
	r.run(`document.querySelector('#tabs [data-column="facts"]').click()`)
	r.take("facts")
	r.choose(name)
}

// take takes the pictures of a view: wide and narrow, light and dark. The narrow ones may have a name of their own.
func (r *rig) take(name string, narrow ...string) {
	r.t.Helper()
	for _, size := range []struct {
		name          string
		width, height int64
	}{{"wide", 1280, 760}, {"narrow", 400, 760}} {
		if size.name == "narrow" && len(narrow) > 0 {
			name = narrow[0]
		}
		r.do(chromedp.EmulateViewport(size.width, size.height))
		for _, scheme := range []string{"light", "dark"} {
			picture := fmt.Sprintf("%s-%s-%s", name, size.name, scheme)
			if !*allPictures && !slices.Contains(documented, picture) {
				continue
			}
			r.scheme(scheme)
			r.run(`await new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 150))`)
			r.shoot(picture)
			if size := shrink(r.t, filepath.Join(*shots, picture+".png")); size > maxPicture && slices.Contains(documented, picture) {
				r.t.Errorf("%s has %d bytes", picture, size)
			}
		}
	}
	r.do(chromedp.EmulateViewport(1280, 760))
}

// shrink gives a picture a palette of 256 colours: the page has few, and the edges of letters are shades of them.
func shrink(t *testing.T, path string) int64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	to := image.NewPaletted(from.Bounds(), paletteOf(from))
	nearest := map[color.Color]uint8{}
	for y := range from.Bounds().Dy() {
		for x := range from.Bounds().Dx() {
			c := from.At(x, y)
			index, known := nearest[c]
			if !known {
				index = uint8(to.Palette.Index(c))
				nearest[c] = index
			}
			to.SetColorIndex(x, y, index)
		}
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, to); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, small.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return int64(small.Len())
}

// paletteOf returns colours that a picture has, so that none of its colours is far from all of them. Frequent ones come first.
func paletteOf(picture image.Image) color.Palette {
	counts := map[color.RGBA]int{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			counts[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	distance := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	for near := 2; ; near += 2 {
		var chosen color.Palette
		for _, c := range colours {
			if !slices.ContainsFunc(chosen, func(other color.Color) bool {
				o := other.(color.RGBA)
				return distance(c.R, o.R)+distance(c.G, o.G)+distance(c.B, o.B) < near
			}) {
				chosen = append(chosen, c)
			}
		}
		if len(chosen) <= 256 {
			return chosen
		}
	}
}
