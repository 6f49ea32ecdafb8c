package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// A packager makes a package of one kind.
type packager struct {
	nfpm.Packager
	suffix string
	zsh    string // the directory for completions of zsh
	user   string // the package with the program that makes a user
}

var packagers = []packager{
	{deb.Default, "deb", "usr/share/zsh/vendor-completions", "passwd"},
	{rpm.DefaultRPM, "rpm", "usr/share/zsh/site-functions", "shadow-utils"},
}

// writePackages writes the packages for a platform.
func (r *release) writePackages(p platform) error {
	dir, err := os.MkdirTemp("", "tether-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	payload, err := r.payload(p)
	if err != nil {
		return err
	}
	for _, k := range packagers {
		info, err := r.packageInfo(p, k, payload, filepath.Join(dir, k.suffix))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := k.Package(info, &out); err != nil {
			return err
		}
		if err := r.write("tether_"+r.number()+"_"+p.String()+"."+k.suffix, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// packageInfo describes a package. Its files are written below dir first, because the packagers read files.
func (r *release) packageInfo(p platform, k packager, payload []entry, dir string) (*nfpm.Info, error) {
	entries, err := r.packageFiles(k, payload)
	if err != nil {
		return nil, err
	}
	var contents files.Contents
	for _, e := range entries {
		path := filepath.Join(dir, e.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, e.content, 0o600); err != nil {
			return nil, err
		}
		contents = append(contents, &files.Content{
			Source: path, Destination: "/" + e.name,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode, MTime: r.time},
		})
	}
	script := func(name string) string { return filepath.Join(r.source, "packaging", name) }
	info := &nfpm.Info{
		Name: "tether", Arch: p.arch, Platform: "linux", Version: r.number(), VersionSchema: "semver", Section: "net", Priority: "optional",
		Maintainer: maintainer, Vendor: "tether", Homepage: homepage, License: "Apache-2.0", Description: summary + "\n" + description,
		DisableGlobbing: true, MTime: r.time,
		Overridables: nfpm.Overridables{
			Depends: []string{k.user}, Suggests: []string{"bubblewrap"}, Contents: contents,
			Scripts: nfpm.Scripts{PostInstall: script("postinstall.sh"), PreRemove: script("preremove.sh"), PostRemove: script("postremove.sh")},
			Deb:     nfpm.Deb{Compression: "gzip"},
			RPM:     nfpm.RPM{Compression: "gzip", BuildHost: "localhost", Summary: summary},
		},
	}
	info = nfpm.WithDefaults(info)
	return info, nfpm.PrepareForPackager(info, k.suffix)
}

// packageFiles are the files of a package, where distributions look for them.
func (r *release) packageFiles(k packager, payload []entry) (entries []entry, err error) {
	add := func(name string, mode fs.FileMode, content []byte) {
		entries = append(entries, entry{name: name, mode: mode, content: content})
	}
	for _, e := range payload {
		switch dir, _, _ := strings.Cut(e.name, "/"); {
		case dir == "bin":
			add("usr/"+e.name, e.mode, e.content)
		case dir == "man":
			content, err := gzipped(e.content)
			if err != nil {
				return nil, err
			}
			add("usr/share/"+e.name+".gz", e.mode, content)
		case e.name == "completions/bash/tether":
			add("usr/share/bash-completion/completions/tether", e.mode, e.content)
		case e.name == "completions/fish/tether.fish":
			add("usr/share/fish/vendor_completions.d/tether.fish", e.mode, e.content)
		case e.name == "completions/zsh/_tether":
			add(k.zsh+"/_tether", e.mode, e.content)
		case e.name == "CHANGELOG.md":
			content, err := gzipped(e.content)
			if err != nil {
				return nil, err
			}
			add("usr/share/doc/tether/changelog.gz", e.mode, content)
		case e.name == "LICENSE":
			add("usr/share/doc/tether/copyright", e.mode, append(fmt.Appendf(nil, "tether, %s\n\nTHIRD-PARTY-LICENSES has the licenses of the libraries in the programs. That of tether:\n\n", homepage), e.content...))
		case e.name == "THIRD-PARTY-LICENSES":
			add("usr/share/doc/tether/"+e.name, e.mode, e.content)
		}
	}
	for _, name := range []string{"tether.service", "tether.socket"} {
		for _, of := range []string{"system", "user"} {
			add("usr/lib/systemd/"+of+"/"+name, 0o644, []byte(r.generated["systemd/"+of+"/"+name]))
		}
	}
	sortEntries(entries)
	return entries, nil
}
