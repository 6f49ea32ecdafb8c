// Command release makes the files of a release out of built programs: archives, packages for Debian and Fedora, an OCI image, a formula
// for Homebrew, an entry for the registry of MCP servers, a list of all parts (SBOM), install.sh, and their checksums.
//
// The same programs and arguments give the same bytes, on any machine: entries are sorted, owners, modes and times are fixed, and no
// file names the directory or the host of the build. scripts/release calls this program.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	homepage    = "https://github.com/tetherexec/tether"
	imageName   = "ghcr.io/tetherexec/tether"
	maintainer  = "The tether developers <https://github.com/tetherexec/tether>"
	summary     = "Run commands and use files on another machine"
	description = "tether runs commands on one machine for a program on another, usually a coding agent. If the connection breaks,\n" +
		"the commands run on, and none of their output is lost. It speaks the exec-server protocol of the Codex CLI."
)

// programs are in each archive and package.
var programs = []string{"tether", "tether-mcp", "tether-fleet"}

// A platform is one for which programs are built.
type platform struct{ os, arch string }

var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func (p platform) String() string { return p.os + "_" + p.arch }

// exe is what the names of programs end with.
func (p platform) exe() string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

// A release is what all files of a release share.
type release struct {
	version string    // as v0.1.0
	commit  string    // of the source
	time    time.Time // of the commit: the time of all files
	source  string    // the directory of the source
	built   string    // has a directory with programs for each platform
	out     string    // where the files go

	platforms []platform        // for which there are programs
	generated map[string]string // manual pages, completions, unit files: the output of tether-mcp print-package
	modules   []module          // all modules in the programs
	licenses  []byte            // their licenses
	checksums map[string]string // SHA-256 of each file of the release, by name
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	var r release
	flag.StringVar(&r.version, "version", "", "`VERSION`, as v0.1.0")
	flag.StringVar(&r.commit, "commit", "", "`COMMIT` of the source")
	flag.StringVar(&r.source, "source", ".", "`DIR` of the source")
	flag.StringVar(&r.built, "built", "", "`DIR` that has a directory OS_ARCH with programs for each platform")
	flag.StringVar(&r.out, "out", "", "`DIR` for the files of the release")
	generated := flag.String("generated", "", "`FILE` with the output of tether-mcp print-package")
	epoch := flag.Int64("epoch", 0, "time of the commit, in `SECONDS` since 1970")
	flag.Parse()
	r.time = time.Unix(*epoch, 0).UTC()
	if err := r.make(*generated); err != nil {
		log.Fatal(err)
	}
	for _, name := range r.names() {
		fmt.Println(name)
	}
}

var versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)

// make writes all files.
func (r *release) make(generated string) error {
	if !versionForm.MatchString(r.version) {
		return fmt.Errorf("version %q: expected a version such as v0.1.0", r.version)
	}
	if err := r.read(generated); err != nil {
		return err
	}
	r.checksums = map[string]string{}
	for _, p := range r.platforms {
		if err := r.writeArchive(p); err != nil {
			return fmt.Errorf("archive for %s: %w", p, err)
		}
		if p.os == "linux" {
			if err := r.writePackages(p); err != nil {
				return fmt.Errorf("packages for %s: %w", p, err)
			}
		}
	}
	for _, write := range []func() error{r.writeImage, r.writeBill, r.writeFormula, r.writeServerJSON, r.copyInstaller} {
		if err := write(); err != nil {
			return err
		}
	}
	return r.writeChecksums()
}

// read finds out what there is.
func (r *release) read(generated string) error {
	for _, p := range platforms {
		if _, err := os.Stat(filepath.Join(r.built, p.String())); err == nil {
			r.platforms = append(r.platforms, p)
		}
	}
	if len(r.platforms) == 0 {
		return fmt.Errorf("%s has no directory such as linux_amd64", r.built)
	}
	if err := readJSON(generated, &r.generated); err != nil {
		return err
	}
	if err := r.readModules(); err != nil {
		return err
	}
	return r.readLicenses()
}

// number is the version without its v.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// program is the path of a built program.
func (r *release) program(p platform, name string) string {
	return filepath.Join(r.built, p.String(), name+p.exe())
}

// write writes a file of the release.
func (r *release) write(name string, content []byte) error {
	r.checksums[name] = fmt.Sprintf("%x", sha256.Sum256(content))
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// copyInstaller adds install.sh.
func (r *release) copyInstaller() error {
	text, err := os.ReadFile(filepath.Join(r.source, "packaging", "install.sh"))
	if err != nil {
		return err
	}
	return r.write("install.sh", text)
}

// writeChecksums writes the checksums of all files before it.
func (r *release) writeChecksums() error {
	var b strings.Builder
	for _, name := range r.names() {
		fmt.Fprintf(&b, "%s  %s\n", r.checksums[name], name)
	}
	return r.write("SHA256SUMS", []byte(b.String()))
}

// names returns the names of the files that have been written.
func (r *release) names() []string {
	var names []string
	for name := range r.checksums {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// archive is the name of the archive for a platform.
func (r *release) archive(p platform) string {
	if p.os == "windows" {
		return "tether_" + r.number() + "_" + p.String() + ".zip"
	}
	return "tether_" + r.number() + "_" + p.String() + ".tar.gz"
}

var errNoProgram = errors.New("a program is missing; scripts/build makes it")
