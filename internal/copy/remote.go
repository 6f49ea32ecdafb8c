package copy

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/wire"
)

// remoteQuestions is how many files are asked about at a time.
const remoteQuestions = 16

// ErrRelative means that a relative path cannot be made absolute.
var ErrRelative = errors.New("the path must be absolute: the server does not report its directories")

// RemotePath makes a path of the server's machine absolute: below its directory, or
// the home directory of its user. A dot at the end stays.
func RemotePath(info wire.EnvironmentInfo, name string) (string, error) {
	system := "linux"
	if strings.EqualFold(info.PlatformOS, "windows") {
		system = "windows"
	}
	base := info.Cwd
	switch {
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "file:"),
		system == "windows" && (strings.HasPrefix(name, `\\`) || len(name) > 2 && name[1] == ':'):
		return name, nil
	case name == "~", strings.HasPrefix(name, "~/"):
		base, name = info.UserHomeDir, strings.TrimPrefix(name[1:], "/")
	}
	if base == nil {
		return "", ErrRelative
	}
	uri, err := wire.ParsePathURI(*base)
	if err != nil {
		return "", err
	}
	dir, err := uri.NativeOn(system)
	if err != nil {
		return "", err
	}
	if name == "" {
		return dir, nil
	}
	return Join(dir, name), nil
}

// An Entry is a name in a directory of the server's machine, and what it is.
type Entry struct {
	Name string
	Info files.FileInfo
	Err  error // why Info is not known
}

// List lists a directory, sorted by name, without broken links.
func List(ctx context.Context, remote *files.Files, dir string) ([]Entry, error) {
	names, err := remoteNames(ctx, remote, dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(names))
	var asking errgroup.Group
	asking.SetLimit(remoteQuestions)
	for i, name := range names {
		asking.Go(func() error {
			e := &entries[i]
			if e.Name = name; name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				e.Err = errors.New("the server has sent an invalid name")
				return nil
			}
			e.Info, e.Err = remote.Stat(ctx, Join(dir, name))
			return nil
		})
	}
	asking.Wait()
	return entries, nil
}

// remoteNames returns the names in a directory. The list of the server has replacement characters
// in names that are not UTF-8; a walk has the true names, but no links.
func remoteNames(ctx context.Context, remote *files.Files, dir string) ([]string, error) {
	entries, err := remote.ReadDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	doubtful := map[string]bool{}
	for _, e := range entries {
		if strings.ContainsRune(e.Name(), utf8.RuneError) {
			doubtful[e.Name()] = true
		} else {
			names = append(names, e.Name())
		}
	}
	if len(doubtful) == 0 {
		return names, nil
	}
	walk, err := remote.Walk(ctx, dir, files.WalkOptions{MaxDepth: 1})
	if err != nil {
		return nil, err
	}
	for _, e := range walk.Entries {
		name := path.Base(e.Path)
		if like := strings.ToValidUTF8(name, string(utf8.RuneError)); strings.ContainsRune(like, utf8.RuneError) {
			names = append(names, name)
			delete(doubtful, like)
		}
	}
	for name := range doubtful { // a request about the name returns the reason
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Mkdir makes a directory. After a lost answer it repeats the request; if the directory exists
// then, that is a success.
func Mkdir(ctx context.Context, files *files.Files, path string) error {
	doubt := false
	return RetryIdempotent(func() error {
		err := files.Mkdir(ctx, path)
		if err != nil && doubt && !errors.Is(err, client.ErrAmbiguous) {
			if info, serr := files.Stat(ctx, path); serr == nil && info.IsDir() {
				return nil
			}
		}
		doubt = doubt || errors.Is(err, client.ErrAmbiguous)
		return err
	})
}

// Remove removes a file or directory. After a lost answer it repeats the request; if the path is
// gone then, that is a success.
func Remove(ctx context.Context, files *files.Files, path string, recursive bool) error {
	info, err := files.Stat(ctx, path)
	if err == nil && info.IsDir() && !info.IsLink() {
		if !recursive {
			return ErrIsDirectory
		}
		return RetryIdempotent(func() error { return files.RemoveAll(ctx, path) })
	}
	doubt := false
	err = RetryIdempotent(func() error {
		err := files.Remove(ctx, path) // also broken links
		if doubt && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		doubt = doubt || errors.Is(err, client.ErrAmbiguous)
		return err
	})
	return err
}

// Reason returns the text of an error about a file, for people, without the name of the file.
func Reason(err error) string {
	if refusal, ok := errors.AsType[*client.ServerError](err); ok {
		if errors.Is(refusal, fs.ErrPermission) {
			return refusal.Error() + " for the user of the server"
		}
		return refusal.Error()
	}
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err.Error()
	case *os.LinkError:
		return e.Err.Error()
	}
	return err.Error()
}
