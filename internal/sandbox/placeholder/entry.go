package placeholder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	pathpkg "path"
	"strconv"
	"strings"
)

const (
	// maxEntry bounds a registry file: the longest path, quoted, and some
	// hundred lines after it. If a placeholder in use is removed from outside
	// and a later sandbox makes it again, that costs two lines.
	maxEntry = 64 << 10
	// maxPath is the limit of Linux.
	maxPath = 4096

	nameLen = 32 // hex digits of a registry file's name
)

var errDamaged = errors.New("damaged registry entry")

// An inodeID distinguishes an inode from a later inode with the same number.
type inodeID struct {
	dev, ino uint64
	born     int64 // ns since 1970; 0: the file system does not record it
}

// same reports whether a and b are one inode. Device numbers may change when
// the machine restarts, so the time of birth is preferred.
func (a inodeID) same(b inodeID) bool {
	if a.born != 0 && b.born != 0 {
		return a.ino == b.ino && a.born == b.born
	}
	return a.ino == b.ino && a.dev == b.dev
}

// A phase is the state of a placeholder.
type phase int

const (
	nothing phase = iota // no placeholder of ours exists
	making               // a placeholder of ours may exist; its identity is not known
	made                 // it exists, unless it was removed from outside
)

// A registryEntry is the content of a registry file. The file has these lines:
//
//	placeholder dir "/home/dev/project/.git"   or file; first, once
//	make                                       about to make it
//	made DEVICE INODE BORN                     it is there
//	gone                                       it was not made after all
//	real DEVICE INODE BORN                     it got content: no longer ours
//
// A line counts when it is complete.
type registryEntry struct {
	want  Want // Path is empty if the first line is missing
	phase phase
	id    inodeID // if made
}

const (
	lineMake = "make\n"
	lineGone = "gone\n"
)

func lineWant(w Want) string {
	kind := "file"
	if w.Dir {
		kind = "dir"
	}
	return "placeholder " + kind + " " + strconv.Quote(w.Path) + "\n"
}

func lineMade(id inodeID) string { return "made " + id.String() + "\n" }
func lineReal(id inodeID) string { return "real " + id.String() + "\n" }

func (a inodeID) String() string { return fmt.Sprintf("%d %d %d", a.dev, a.ino, a.born) }

// decode reads a registry file. An entry that it returns without an error has
// a checked path, or no path and the phase nothing.
func decode(data []byte) (registryEntry, error) {
	var e registryEntry
	if len(data) > maxEntry {
		return registryEntry{}, errDamaged
	}
	for first := true; ; first = false {
		line, rest, complete := bytes.Cut(data, []byte("\n"))
		if !complete {
			return e, nil
		}
		data = rest
		verb, args, _ := strings.Cut(string(line), " ")
		if first != (verb == "placeholder") || !e.apply(verb, args) {
			return registryEntry{}, errDamaged
		}
	}
}

// apply applies one line to the entry; false if the line makes no sense.
func (e *registryEntry) apply(verb, args string) bool {
	switch verb {
	case "placeholder":
		kind, quoted, _ := strings.Cut(args, " ")
		path, err := strconv.Unquote(quoted)
		e.want = Want{Path: path, Dir: kind == "dir"}
		return err == nil && (e.want.Dir || kind == "file") && checkPath(path) == nil
	case "make":
		e.phase = making
		return args == ""
	case "gone":
		e.phase = nothing
		return args == ""
	case "made", "real":
		id, ok := parseIdentity(args)
		switch {
		case !ok:
			return false
		case verb == "made":
			e.phase, e.id = made, id
		case e.phase == made && id == e.id:
			e.phase = nothing
		}
		return true
	}
	return false
}

func parseIdentity(s string) (id inodeID, ok bool) {
	fields := strings.Split(s, " ")
	if len(fields) != 3 {
		return id, false
	}
	var errs [3]error
	id.dev, errs[0] = strconv.ParseUint(fields[0], 10, 64)
	id.ino, errs[1] = strconv.ParseUint(fields[1], 10, 64)
	id.born, errs[2] = strconv.ParseInt(fields[2], 10, 64)
	return id, errors.Join(errs[:]...) == nil
}

// checkPath returns an error if p cannot name a placeholder.
func checkPath(p string) error {
	switch {
	case len(p) >= maxPath:
		return errors.New("path is too long")
	case p == "/", !strings.HasPrefix(p, "/"), pathpkg.Clean(p) != p, strings.ContainsRune(p, 0):
		return errors.New("not an absolute, clean path")
	}
	return nil
}

// registryName is the name of the registry file of a path.
func registryName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:nameLen/2])
}

func isRegistryName(name string) bool {
	_, err := hex.DecodeString(name)
	return len(name) == nameLen && err == nil && strings.ToLower(name) == name
}
