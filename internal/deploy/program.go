package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tetherexec/tether/internal/sshhost"
)

// maxProgram bounds a program in an archive, which is unpacked in memory.
const maxProgram = 128 << 20

// A platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string {
	if p.os == "" {
		return "another platform"
	}
	return p.os + "/" + p.arch
}

// The names of uname -s and -m.
var (
	systems       = map[string]string{"Linux": "linux", "Darwin": "darwin"}
	architectures = map[string]string{
		"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv8l": "arm", "armv7l": "arm", "armv6l": "arm",
		"i386": "386", "i486": "386", "i586": "386", "i686": "386", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x", "loongarch64": "loong64",
	}
)

// platformOf returns the platform of a machine by what uname -s and -m print there.
func platformOf(uname string) (platform, error) {
	system, machine, _ := strings.Cut(uname, " ")
	p := platform{systems[system], architectures[machine]}
	if p.os == "" || p.arch == "" {
		return platform{}, fmt.Errorf("its platform is %q, and no program of tether is known for that", uname)
	}
	return p, nil
}

// A program is what is copied.
type program struct {
	io.ReadSeekCloser
	size int64
	sum  string // SHA-256
}

// find opens the program for a platform.
func find(d *Deployment, target platform) (*program, error) {
	if d.File != "" {
		return open(d.File)
	}
	if target == (platform{runtime.GOOS, runtime.GOARCH}) {
		return open(d.Own)
	}
	dir := filepath.Dir(d.Own)
	name := "tether-" + target.os + "-" + target.arch
	archive := "tether_" + strings.TrimPrefix(sshhost.Dir(d.Version), "v") + "_" + target.os + "_" + target.arch + ".tar.gz" // as tools/release names it
	p, err := open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		p, err = unpack(filepath.Join(dir, archive))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the machine needs tether for %s, which is not here: put %s, or %s of the release, into %s, or name the file with --executor-binary. "+
			"`GOOS=%s GOARCH=%s CGO_ENABLED=0 go build -o %s ./cmd/tether` makes it", target, name, archive, dir, target.os, target.arch, name)
	}
	return p, err
}

// open opens a program in a file.
func open(name string) (*program, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		file.Close()
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return summed(file)
}

// summed computes the size and the checksum.
func summed(content io.ReadSeekCloser) (*program, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, content)
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err != nil {
		content.Close()
		return nil, err
	}
	return &program{content, size, hex.EncodeToString(sum.Sum(nil))}, nil
}

// unpack takes the program out of an archive of the release.
func unpack(name string) (*program, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for entries := tar.NewReader(io.LimitReader(zipped, 2*maxProgram)); ; {
		entry, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s has no file bin/tether", name)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case !strings.HasSuffix(path.Clean("/"+entry.Name), "/bin/tether") || entry.Typeflag != tar.TypeReg:
			continue
		case entry.Size > maxProgram:
			return nil, fmt.Errorf("%s: tether is larger than %d bytes", name, maxProgram)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return summed(inMemory{bytes.NewReader(content)})
	}
}

type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }
