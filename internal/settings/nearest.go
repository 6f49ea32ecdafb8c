package settings

import "fmt"

// Unknown is the error for a name that is none of those known.
func Unknown(name string, known []string) error {
	if near := nearest(name, known); near != "" {
		return fmt.Errorf("unknown key %q; did you mean %s?", name, near)
	}
	return fmt.Errorf("unknown key %q", name)
}

// nearest returns the known name that differs least from a name; "": none is similar.
func nearest(name string, known []string) (near string) {
	least := len(name)/3 + 2 // more edits make another word
	for _, k := range known {
		if d := distance(name, k); d < least {
			near, least = k, d
		}
	}
	return near
}

// maxName bounds the names that are compared.
const maxName = 64

// distance is the number of bytes to insert, remove or replace to make b out of a.
func distance(a, b string) int {
	if len(a) > maxName || len(b) > maxName {
		return maxName
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0] // of the previous row
		row[0] = i + 1
		for j := range len(b) {
			edits := diagonal
			if a[i] != b[j] {
				edits = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], edits
		}
	}
	return row[len(b)]
}
