// Package web has the files of the console's page, as they were when this program was built.
//
// dist holds what `make build` makes of the sources. Only its placeholder is in the repository: builds without the other files, such as
// those of `go install`, show it. A file NAME.gz stands for NAME, compressed.
package web

import "embed"

//go:embed dist
var dist embed.FS

// Files returns the files of the page, by name.
func Files() (map[string][]byte, error) {
	entries, err := dist.ReadDir("dist")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = dist.ReadFile("dist/" + e.Name()); err != nil {
			return nil, err
		}
	}
	return files, nil
}
