package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// testVersion is the version of the releases below.
const testVersion = "v9.8.7"

// buildProgram builds a program that prints a version, in place of tether.
var buildProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "tether-release-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"tether "+testVersion+"\\n\") }\n"), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "program"), source)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "program"))
})

// testPlatforms are fewer than those of a real release, because compression takes most of the time of these tests.
var testPlatforms = []platform{{"linux", "amd64"}, {"windows", "amd64"}, {runtime.GOOS, runtime.GOARCH}}

// shared is a release that several tests read.
var shared struct {
	once      sync.Once
	temporary string
	dir       string
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(shared.temporary)
	os.Exit(code)
}

// sharedRelease returns the directory of a release that no test changes.
func sharedRelease(t *testing.T) string {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "tether-release-test-")
		if err != nil {
			t.Fatal(err)
		}
		shared.temporary = dir
		shared.dir = makeRelease(t, dir)
	})
	return shared.dir
}

// makeRelease makes a release in a directory, and returns the directory of its files.
func makeRelease(t *testing.T, dir string) string {
	t.Helper()
	program, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: testVersion, commit: strings.Repeat("0123456789", 4), time: time.Unix(1700000000, 0).UTC(), source: "../..", built: dir, out: filepath.Join(dir, "out")}
	for _, p := range testPlatforms {
		if err := os.MkdirAll(filepath.Join(dir, p.String()), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range programs {
			if err := os.WriteFile(r.program(p, name), program, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	generated, err := json.Marshal(map[string]string{
		"man/man1/tether.1": ".TH TETHER 1\n", "completions/bash/tether": "b", "completions/zsh/_tether": "z", "completions/fish/tether.fish": "f",
		"completions/powershell/tether.ps1": "p", "systemd/system/tether.service": "[Service]", "systemd/system/tether.socket": "[Socket]",
		"systemd/user/tether.service": "[Service]", "systemd/user/tether.socket": "[Socket]",
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "generated"), generated, 0o600)
	}
	if err == nil {
		err = os.Mkdir(r.out, 0o755)
	}
	if err == nil {
		err = r.make(filepath.Join(dir, "generated"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.out
}

// read returns the files of a directory.
func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name.Name()], err = os.ReadFile(filepath.Join(dir, name.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// untar returns the files of a tar archive, and its headers.
func untar(t *testing.T, archive []byte) (files map[string][]byte, headers map[string]*tar.Header) {
	t.Helper()
	files, headers = map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		if err == nil {
			files[h.Name], err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
	}
}

func gunzip(t *testing.T, compressed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Two releases of the same programs are equal, whatever the directories and the times of files are, and no file names the directory.
func TestReproducible(t *testing.T) {
	t.Parallel()
	first, second := sharedRelease(t), makeRelease(t, t.TempDir())
	a, b := read(t, first), read(t, second)
	if names := slices.Sorted(maps.Keys(a)); !slices.Equal(names, slices.Sorted(maps.Keys(b))) || len(names) < 2+2+6 {
		t.Fatalf("files: %q", names)
	}
	sums := string(a["SHA256SUMS"])
	for name, content := range a {
		if !bytes.Equal(content, b[name]) {
			t.Errorf("%s differs", name)
		}
		if bytes.Contains(content, []byte(filepath.Dir(first))) {
			t.Errorf("%s names the directory of the build", name)
		}
		if host, _ := os.Hostname(); len(host) > 8 && bytes.Contains(content, []byte(host)) {
			t.Errorf("%s names this machine", name)
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name); name != "SHA256SUMS" && !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS does not have the line %s", line)
		}
	}
}

// An archive has one directory, whose files belong to root and have the time of the commit.
func TestArchive(t *testing.T) {
	t.Parallel()
	_, headers := untar(t, gunzip(t, read(t, sharedRelease(t))["tether_9.8.7_linux_amd64.tar.gz"]))
	for name, mode := range map[string]int64{
		"bin/tether": 0o755, "bin/tether-mcp": 0o755, "bin/tether-fleet": 0o755, "man/man1/tether.1": 0o644, "LICENSE": 0o644, "THIRD-PARTY-LICENSES": 0o644,
		"completions/powershell/tether.ps1": 0o644,
	} {
		h := headers["tether_9.8.7_linux_amd64/"+name]
		if h == nil || h.Mode != mode || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// The blobs of the image have the digests that refer to them, and the user is not root.
func TestImage(t *testing.T) {
	t.Parallel()
	files, _ := untar(t, read(t, sharedRelease(t))["tether_9.8.7_oci.tar"])
	blob := func(d descriptor, into any) []byte {
		t.Helper()
		content := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if fmt.Sprintf("sha256:%x", sha256.Sum256(content)) != d.Digest || len(content) != d.Size {
			t.Fatalf("the content of %+v has %d bytes", d, len(content))
		}
		if into != nil {
			if err := json.Unmarshal(content, into); err != nil {
				t.Fatal(err)
			}
		}
		return content
	}
	var top, images index
	if err := json.Unmarshal(files["index.json"], &top); err != nil || len(top.Manifests) != 1 || string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Fatalf("%v: %s", err, files["index.json"])
	}
	blob(top.Manifests[0], &images)
	if len(images.Manifests) == 0 {
		t.Fatalf("images: %+v", images)
	}
	for _, image := range images.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		blob(image, &manifest)
		var config struct {
			Architecture string
			Config       struct {
				User       string
				Entrypoint []string
				Labels     map[string]string
			}
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		blob(manifest.Config, &config)
		layer := gunzip(t, blob(manifest.Layers[0], nil))
		if config.Architecture != image.Platform["architecture"] || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/tether"}) ||
			config.Config.Labels["io.modelcontextprotocol.server.name"] != serverName || config.RootFS.DiffIDs[0] != fmt.Sprintf("sha256:%x", sha256.Sum256(layer)) {
			t.Errorf("%+v", config)
		}
		_, headers := untar(t, layer)
		if h := headers["tmp/"]; h == nil || h.Mode != 0o1777 {
			t.Errorf("/tmp: %+v", h)
		}
		if h := headers["home/tether/"]; h == nil || h.Uid != imageUser || h.Mode != 0o700 {
			t.Errorf("the home directory: %+v", h)
		}
		if h := headers["usr/bin/tether"]; h == nil || h.Uid != 0 || h.Mode != 0o755 {
			t.Errorf("tether: %+v", h)
		}
	}
}

// Debian's own program reads the package: its files, owners and scripts. scripts/release-check installs it.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	path := filepath.Join(sharedRelease(t), "tether_9.8.7_linux_amd64.deb")
	for _, row := range []struct {
		args []string
		want []string
	}{
		{[]string{"--field", path}, []string{"Package: tether\n", "Version: 9.8.7\n", "Architecture: amd64\n", "Depends: passwd\n", "Section: net\n"}},
		{[]string{"--ctrl-tarfile", path}, []string{"./postinst", "./prerm", "./postrm", "./md5sums"}},
		{[]string{"--contents", path}, []string{
			"-rwxr-xr-x root/root", " ./usr/bin/tether\n", " ./usr/bin/tether-mcp\n", " ./usr/bin/tether-fleet\n", " ./usr/share/man/man1/tether.1.gz\n",
			" ./usr/share/bash-completion/completions/tether\n", " ./usr/share/zsh/vendor-completions/_tether\n", " ./usr/share/fish/vendor_completions.d/tether.fish\n",
			" ./usr/lib/systemd/system/tether.service\n", " ./usr/lib/systemd/user/tether.socket\n", " ./usr/share/doc/tether/copyright\n", " ./usr/share/doc/tether/changelog.gz\n",
		}},
	} {
		out, err := exec.Command("dpkg-deb", row.args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range row.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v: %q is missing in:\n%s", row.args, want, out)
			}
		}
	}
}

// The list of parts names each Go module of the programs and each npm package of the page, and refers only to parts that it has.
func TestBill(t *testing.T) {
	t.Parallel()
	var bill struct {
		Packages      []spdxPackage
		Relationships []spdxRelation
	}
	if err := json.Unmarshal(read(t, sharedRelease(t))["tether_9.8.7.spdx.json"], &bill); err != nil {
		t.Fatal(err)
	}
	refs, ids := map[string]bool{}, map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, p := range bill.Packages {
		refs[p.Refs[0].Locator], ids[p.ID] = true, true
	}
	if std := "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"); !refs[std] || !refs["pkg:npm/%40xterm/xterm@5.5.0"] {
		t.Errorf("parts: %v", refs)
	}
	if len(bill.Relationships) != len(bill.Packages) {
		t.Errorf("%d relations of %d parts", len(bill.Relationships), len(bill.Packages))
	}
	for _, r := range bill.Relationships {
		if !ids[r.Of] || !ids[r.To] {
			t.Errorf("a relation with a part that is not there: %+v", r)
		}
	}
}

// The formula and the entry in the registry of MCP servers name this release.
func TestIndexes(t *testing.T) {
	t.Parallel()
	files := read(t, sharedRelease(t))
	sum := fmt.Sprintf("%x", sha256.Sum256(files["tether_9.8.7_linux_amd64.tar.gz"]))
	if want := "      url \"https://github.com/tetherexec/tether/releases/download/v9.8.7/tether_9.8.7_linux_amd64.tar.gz\"\n      sha256 \"" + sum + "\"\n"; !strings.Contains(string(files["tether.rb"]), want) {
		t.Errorf("%q is missing in:\n%s", want, files["tether.rb"])
	}
	if text := string(files["server.json"]); !strings.Contains(text, `"version": "9.8.7"`) || !strings.Contains(text, `"identifier": "ghcr.io/tetherexec/tether:9.8.7"`) {
		t.Errorf("server.json: %s", text)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3/../x", "vdev"} {
		r := release{version: version}
		if err := r.make(""); err == nil || !strings.Contains(err.Error(), "expected a version such as v0.1.0") {
			t.Errorf("version %q: %v", version, err)
		}
	}
}
