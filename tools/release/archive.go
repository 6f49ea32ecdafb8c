package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An entry is a file of an archive or of a package. Directories have a mode with fs.ModeDir.
type entry struct {
	name    string // with slashes
	mode    fs.FileMode
	content []byte
	owner   int // the id of its user and group
}

// payload returns the files that archives and packages have in common: programs, and what is generated from their commands.
func (r *release) payload(p platform) (entries []entry, err error) {
	for _, name := range programs {
		content, err := os.ReadFile(r.program(p, name))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoProgram, err)
		}
		entries = append(entries, entry{name: "bin/" + name + p.exe(), mode: 0o755, content: content})
	}
	for name, text := range r.generated {
		if !strings.HasPrefix(name, "systemd/") {
			entries = append(entries, entry{name: name, mode: 0o644, content: []byte(text)})
		}
	}
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: name, mode: 0o644, content: text})
	}
	entries = append(entries, entry{name: "THIRD-PARTY-LICENSES", mode: 0o644, content: r.licenses})
	sortEntries(entries)
	return entries, nil
}

func sortEntries(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
}

// writeArchive writes the archive for a platform. All its files are in one directory.
func (r *release) writeArchive(p platform) error {
	entries, err := r.payload(p)
	if err != nil {
		return err
	}
	dir := "tether_" + r.number() + "_" + p.String()
	for i := range entries {
		entries[i].name = dir + "/" + entries[i].name
	}
	if p.os == "windows" {
		content, err := zipped(entries, r.time)
		if err != nil {
			return err
		}
		return r.write(r.archive(p), content)
	}
	content, err := tarred(entries, r.time)
	if err != nil {
		return err
	}
	if content, err = gzipped(content); err != nil {
		return err
	}
	return r.write(r.archive(p), content)
}

// tarred returns a tar archive of sorted entries.
func tarred(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.name, Mode: int64(e.mode.Perm()), Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR,
			Typeflag: tar.TypeReg, Uid: e.owner, Gid: e.owner,
		}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if e.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipped compresses; the header has neither a name nor a time.
func gzipped(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// zipped returns a zip archive of sorted entries.
func zipped(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
