package directory

import (
	"slices"
	"strings"
)

// An index finds the hosts that may match a query, without a look at all the others.
type index struct {
	all     []*knownHost
	byLabel map[string][]*knownHost // by KEY=VALUE, and by KEY
}

// keysOf returns the keys of byLabel under which a host with these labels is.
func keysOf(labels []string) (keys []string) {
	for _, label := range labels {
		keys = append(keys, label)
		if key, _, valued := strings.Cut(label, "="); valued {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// add adds a host.
func (x *index) add(h *knownHost) {
	x.all = append(x.all, h)
	x.label(h)
}

// label adds a host to the lists of its labels.
func (x *index) label(h *knownHost) {
	for _, key := range keysOf(h.Labels) {
		if x.byLabel == nil {
			x.byLabel = map[string][]*knownHost{}
		}
		x.byLabel[key] = append(x.byLabel[key], h)
	}
}

// remove removes a host.
func (x *index) remove(h *knownHost) {
	x.all = without(x.all, h)
	x.unlabel(h)
}

// unlabel removes a host from the lists of its labels.
func (x *index) unlabel(h *knownHost) {
	for _, key := range keysOf(h.Labels) {
		if list := without(x.byLabel[key], h); len(list) > 0 {
			x.byLabel[key] = list
		} else {
			delete(x.byLabel, key)
		}
	}
}

// without removes a host from a list, whose order changes. Hosts seldom leave, so that a list needs no index of its own.
func without(list []*knownHost, h *knownHost) []*knownHost {
	i, last := slices.Index(list, h), len(list)-1
	if i < 0 {
		return list
	}
	list[i], list[last] = list[last], nil
	return list[:last]
}

// candidates returns the shortest list that has all hosts with these labels.
func (x *index) candidates(labels []string) []*knownHost {
	list := x.all
	for _, label := range labels {
		if with := x.byLabel[label]; len(with) < len(list) {
			list = with
		}
	}
	return list
}
