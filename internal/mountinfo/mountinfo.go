// Package mountinfo reads the kernel's list of mounts, /proc/PID/mountinfo.
package mountinfo

import (
	"fmt"
	"strings"
)

// Own is the list of this process.
const Own = "/proc/self/mountinfo"

// A Mount is a line of the list.
type Mount struct {
	Root    string // the directory of the file system that is mounted
	Point   string // the mount point
	Options string // "ro,nosuid": "ro" or "rw" comes first
	Type    string // of the file system

	optional []string // how mounts and unmounts propagate

	Super string // options of the file system, such as the controllers of a cgroup hierarchy
}

// Follows returns the field, "shared:N" or "master:N", by which a later mount elsewhere can appear below
// the mount; empty if it cannot.
func (m Mount) Follows() string {
	for _, field := range m.optional {
		if strings.HasPrefix(field, "shared:") || strings.HasPrefix(field, "master:") {
			return field
		}
	}
	return ""
}

// Parse parses a list.
func Parse(text string) ([]Mount, error) {
	var mounts []Mount
	for line := range strings.Lines(text) {
		before, after, found := strings.Cut(line, " - ")
		fields := strings.Split(before, " ") // number, parent, device, root, mount point, options, optional fields
		kind, rest, typed := strings.Cut(after, " ")
		_, super, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ") // behind the source
		if !found || !typed || len(fields) < 6 {
			return nil, fmt.Errorf("unreadable mount: %q", line)
		}
		mounts = append(mounts, Mount{
			Root: unescape(fields[3]), Point: unescape(fields[4]),
			Options: fields[5], Type: kind, optional: fields[6:], Super: super,
		})
	}
	return mounts, nil
}

// unescape undoes the octal escapes of the kernel.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s // nearly always; a replacer is slow to make
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
