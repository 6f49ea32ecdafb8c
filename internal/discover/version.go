package discover

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// compareVersions orders the versions of a plugin: by semantic versioning if both
// follow it, otherwise as text.
func compareVersions(a, b string) int {
	if a == localVersion || b == localVersion {
		return cmp.Compare(boolToInt(a == localVersion), boolToInt(b == localVersion))
	}
	va, okA := parseVersion(a)
	vb, okB := parseVersion(b)
	if okA && okB {
		if c := va.compare(vb); c != 0 {
			return c
		}
	}
	return strings.Compare(a, b)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A semanticVersion is MAJOR.MINOR.PATCH[-PRERELEASE]; build metadata is ignored.
type semanticVersion struct {
	numbers    [3]uint64
	prerelease []string
}

func parseVersion(s string) (v semanticVersion, ok bool) {
	s, _, _ = strings.Cut(s, "+")
	s, prerelease, found := strings.Cut(s, "-")
	if found {
		v.prerelease = strings.Split(prerelease, ".")
	}
	parts := strings.Split(s, ".")
	if len(parts) != len(v.numbers) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != part {
			return v, false
		}
		v.numbers[i] = n
	}
	return v, !slices.Contains(v.prerelease, "")
}

func (v semanticVersion) compare(w semanticVersion) int {
	if c := slices.Compare(v.numbers[:], w.numbers[:]); c != 0 {
		return c
	}
	if len(v.prerelease) == 0 || len(w.prerelease) == 0 { // a release comes after its prereleases
		return cmp.Compare(len(w.prerelease), len(v.prerelease))
	}
	return slices.CompareFunc(v.prerelease, w.prerelease, func(a, b string) int {
		m, errA := strconv.ParseUint(a, 10, 64)
		n, errB := strconv.ParseUint(b, 10, 64)
		switch {
		case errA == nil && errB == nil:
			return cmp.Compare(m, n)
		case errA == nil:
			return -1
		case errB == nil:
			return 1
		}
		return strings.Compare(a, b)
	})
}
