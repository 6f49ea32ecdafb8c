//go:build mcp || fleet || !split

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/copy"
	"github.com/tetherexec/tether/internal/terminal"
)

// fileFacts are the facts about a file in --json.
type fileFacts struct {
	Path       jsonPath `json:"path"`
	Type       string   `json:"type"` // "file", "directory" or "other"; for a link, that of its target
	IsLink     bool     `json:"isLink"`
	LeadsTo    jsonPath `json:"leadsTo,omitempty"` // the target of a link, with all links resolved
	Mode       string   `json:"mode,omitempty"`    // permissions in octal; empty if the server does not report them
	Size       int64    `json:"size"`
	ModifiedMs int64    `json:"modifiedMs"`
	CreatedMs  int64    `json:"createdMs,omitempty"`
}

func factsOf(path string, info files.FileInfo) fileFacts {
	f := fileFacts{Path: jsonPath(path), Type: typeText(info), IsLink: info.IsLink(), Size: info.Size(), ModifiedMs: info.ModTime().UnixMilli()}
	if perm, known := info.Permissions(); known {
		f.Mode = fmt.Sprintf("%04o", perm)
	}
	if created := info.Created(); !created.IsZero() {
		f.CreatedMs = created.UnixMilli()
	}
	return f
}

func typeText(info files.FileInfo) string {
	switch {
	case info.IsDir():
		return "directory"
	case info.Mode().IsRegular():
		return "file"
	}
	return "other"
}

// A lister prints directories.
type lister struct {
	out            io.Writer
	all, long      bool
	asJSON, titled bool
	facts          []fileFacts
	printed        bool // whether a list was printed; then a blank line comes before the next title
}

func newFsLs() *cobra.Command {
	var server serverFlags
	var l lister
	cmd := &cobra.Command{
		Use:   "ls [flags] [PATH...]",
		Short: "List directories",
		Long: "List directories of the server's machine; without a PATH, the server's own directory. The\n" +
			"protocol has no owners and leaves out broken links.",
		Example:               "  tether fs ls -l /srv/project",
		Args:                  needPaths(0),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.out, l.titled = cmd.OutOrStdout(), len(args) > 1
			if len(args) == 0 {
				args = []string{"."}
			}
			err := server.withFiles(cmd, args, l.list)
			if l.asJSON && (err == nil || len(l.facts) > 0) {
				if l.facts == nil {
					l.facts = []fileFacts{}
				}
				err = errors.Join(err, printJSON(l.out, l.facts))
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVarP(&l.long, "long", "l", false, "print type, permissions, size and time of the last change")
	fs.BoolVarP(&l.all, "all", "a", false, "list names that begin with a dot, too")
	fs.BoolVar(&l.asJSON, "json", false, "print JSON")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

// list prints one directory, or one file.
func (l *lister) list(v *fileCommand, path string) error {
	info, err := v.files.Stat(v.ctx, path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return l.print([]copy.Entry{{Name: path, Info: info}}, "")
	}
	entries, err := copy.List(v.ctx, v.files, path)
	if err != nil {
		return err
	}
	var shown []copy.Entry
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name, ".") && !l.all:
		case e.Err != nil:
			if copy.IsFatal(e.Err) {
				return e.Err
			}
			v.printLine(copy.Join(path, e.Name), e.Err)
		default:
			shown = append(shown, e)
		}
	}
	if l.titled && !l.asJSON {
		if l.printed {
			fmt.Fprintln(l.out)
		}
		fmt.Fprintf(l.out, "%s:\n", terminal.Name(path))
	}
	return l.print(shown, path)
}

// print prints entries of the directory dir. If dir is empty, the names of the entries are paths.
func (l *lister) print(entries []copy.Entry, dir string) error {
	l.printed = true
	t := newLongList(l.out)
	for _, e := range entries {
		path := e.Name
		if dir != "" {
			path = copy.Join(dir, e.Name)
		}
		switch {
		case l.asJSON:
			l.facts = append(l.facts, factsOf(path, e.Info))
		case l.long:
			t.row(e.Name, e.Info)
		default:
			if _, err := fmt.Fprintln(l.out, terminal.Name(e.Name)); err != nil {
				return terminal.OutputError(err)
			}
		}
	}
	return t.flush()
}

// A longList prints entries with facts. The sizes are aligned on the right.
type longList struct {
	out  io.Writer
	rows [][4]string
}

func newLongList(out io.Writer) *longList { return &longList{out: out} }

func (t *longList) row(name string, info files.FileInfo) {
	kind := "-"
	switch {
	case info.IsLink():
		kind = "l"
	case info.IsDir():
		kind = "d"
	case !info.Mode().IsRegular():
		kind = "?"
	}
	if perm, known := info.Permissions(); known {
		kind += perm.String()[1:]
	}
	t.rows = append(t.rows, [4]string{kind, fmt.Sprint(info.Size()), info.ModTime().Format(time.DateTime), terminal.Name(name)})
}

func (t *longList) flush() error {
	width := 0
	for _, r := range t.rows {
		width = max(width, len(r[1]))
	}
	for _, r := range t.rows {
		if _, err := fmt.Fprintf(t.out, "%s  %*s  %s  %s\n", r[0], width, r[1], r[2], r[3]); err != nil {
			return terminal.OutputError(err)
		}
	}
	return nil
}

func newFsStat() *cobra.Command {
	var server serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:                   "stat [flags] PATH...",
		Short:                 "Print facts about files",
		Long:                  "Print type, permissions, size and times of files. For a link, these are the facts of its target.",
		Args:                  needPaths(1),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			facts := []fileFacts{}
			err := server.withFiles(cmd, args, func(v *fileCommand, path string) error {
				info, err := v.files.Stat(v.ctx, path)
				if err != nil {
					return err
				}
				f := factsOf(path, info)
				if info.IsLink() {
					real, err := v.files.Canonical(v.ctx, path)
					if err != nil {
						return err
					}
					f.LeadsTo = jsonPath(real)
				}
				facts = append(facts, f)
				return nil
			})
			if asJSON {
				return errors.Join(err, printJSON(cmd.OutOrStdout(), facts))
			}
			for i, f := range facts {
				text := f.text()
				if i > 0 {
					text = "\n" + text
				}
				if _, werr := io.WriteString(cmd.OutOrStdout(), text); werr != nil {
					return errors.Join(err, terminal.OutputError(werr))
				}
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func (f fileFacts) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Path      %s\n", terminal.Name(string(f.Path)))
	if f.IsLink {
		fmt.Fprintf(&b, "Link to   %s\n", terminal.Name(string(f.LeadsTo)))
	}
	fmt.Fprintf(&b, "Type      %s\n", f.Type)
	if f.Mode != "" {
		fmt.Fprintf(&b, "Mode      %s\n", f.Mode)
	}
	fmt.Fprintf(&b, "Size      %d (%s)\n", f.Size, terminal.Bytes(uint64(f.Size)))
	fmt.Fprintf(&b, "Modified  %s\n", time.UnixMilli(f.ModifiedMs).Format(time.RFC3339))
	if f.CreatedMs != 0 {
		fmt.Fprintf(&b, "Created   %s\n", time.UnixMilli(f.CreatedMs).Format(time.RFC3339))
	}
	return b.String()
}
