package sandbox

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A memHost is a machine in memory. Paths that are not in it do not exist.
type memHost map[string]memNode

type memNode struct {
	mode   fs.FileMode
	text   string // of a file, or the target of a link
	closed bool   // no names can be created in it
	sticky bool   // foreign names in it cannot be removed

	foreign bool // it belongs to another user
}

// newHost reads one path per word: /d/ is a directory, /f a file, /s= a socket, /l->t a
// link, /f:text a file with text, /d/! a directory where nothing can be created, /d/+ a
// sticky directory of another user; a word that begins with ~ is foreign. Directories
// above are made too.
func newHost(words ...string) memHost {
	h := memHost{"/": {mode: fs.ModeDir}}
	for _, list := range words {
		for _, w := range strings.Fields(list) {
			h.put(w)
		}
	}
	return h
}

func (h memHost) put(w string) {
	node := memNode{}
	w, foreign := strings.CutPrefix(w, "~")
	if p, target, ok := strings.Cut(w, "->"); ok {
		w, node = p, memNode{mode: fs.ModeSymlink, text: target}
	} else if p, text, ok := strings.Cut(w, ":"); ok {
		w, node.text = p, strings.ReplaceAll(text, "_", " ")
	} else if p, ok := strings.CutSuffix(w, "/!"); ok {
		w, node = p, memNode{mode: fs.ModeDir, closed: true}
	} else if p, ok := strings.CutSuffix(w, "/+"); ok {
		w, node = p, memNode{mode: fs.ModeDir, sticky: true}
	} else if p, ok := strings.CutSuffix(w, "/"); ok {
		w, node = p, memNode{mode: fs.ModeDir}
	} else if p, ok := strings.CutSuffix(w, "="); ok {
		w, node = p, memNode{mode: fs.ModeSocket}
	}
	node.foreign = foreign
	h[w] = node
	for dir := path.Dir(w); dir != "/"; dir = path.Dir(dir) {
		if _, ok := h[dir]; !ok {
			h[dir] = memNode{mode: fs.ModeDir}
		}
	}
}

// get finds a node as the kernel would, following links above it.
func (h memHost) get(name string) (memNode, error) {
	for range maxLinks {
		if node, ok := h[name]; ok {
			return node, nil
		}
		up := path.Dir(name)
		for ; ; up = path.Dir(up) {
			if node, ok := h[up]; !ok {
				continue
			} else if node.mode&fs.ModeSymlink != 0 {
				target := node.text
				if !path.IsAbs(target) {
					target = path.Join(path.Dir(up), target)
				}
				name = path.Join(target, strings.TrimPrefix(name, up))
				break
			} else if !node.mode.IsDir() {
				return memNode{}, syscall.ENOTDIR
			}
			return memNode{}, fs.ErrNotExist
		}
	}
	return memNode{}, syscall.ELOOP
}

func (h memHost) Lstat(p string) (fs.FileMode, error) {
	n, err := h.get(p)
	return n.mode, err
}

func (h memHost) Readlink(p string) (string, error) {
	n, err := h.get(p)
	return n.text, err
}

func (h memHost) ReadFile(p string, limit int) ([]byte, error) {
	n, err := h.get(p)
	return []byte(n.text[:min(limit, len(n.text))]), err
}

func (h memHost) CanCreate(dir string) bool { return !h[dir].closed }

func (h memHost) CanRemove(p string) bool { return !(h[path.Dir(p)].sticky && h[p].foreign) }

func (h memHost) Foreign(p string) bool { return h[p].foreign }

func (h memHost) ReadDir(dir string) ([]fs.DirEntry, error) {
	if n, err := h.get(dir); err != nil || !n.mode.IsDir() {
		return nil, fs.ErrNotExist
	}
	var list []fs.DirEntry
	for p, n := range h {
		if p != "/" && path.Dir(p) == dir {
			list = append(list, fs.FileInfoToDirEntry(memInfo{path.Base(p), n.mode}))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

type memInfo struct {
	name string
	mode fs.FileMode
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return 0 }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
