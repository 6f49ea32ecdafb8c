package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// A module is a Go module that is a part of the programs. The standard library is the module std.
type module struct{ path, version, sum string }

// readModules asks the built programs which modules they have.
func (r *release) readModules() error {
	found := map[module]bool{}
	for _, p := range r.platforms {
		for _, name := range programs {
			info, err := buildinfo.ReadFile(r.program(p, name))
			if err != nil {
				return fmt.Errorf("%w: %w", errNoProgram, err)
			}
			if info.GoVersion != runtime.Version() {
				return fmt.Errorf("%s was built by %s, and this program by %s: use the same for both", r.program(p, name), info.GoVersion, runtime.Version())
			}
			found[module{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}] = true
			for _, m := range info.Deps {
				if m.Replace != nil {
					return fmt.Errorf("the module %s is replaced by %s: a release has published modules only", m.Path, m.Replace.Path)
				}
				found[module{m.Path, m.Version, m.Sum}] = true
			}
		}
	}
	r.modules = slices.SortedFunc(maps.Keys(found), func(a, b module) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.version, b.version))
	})
	return nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// readLicenses collects the licenses of all modules. Those of the console's page are in the page itself.
func (r *release) readLicenses() error {
	var all bytes.Buffer
	all.WriteString("The programs of tether contain the libraries below. The console has the licenses of its own parts at /console/licenses.txt.\n")
	for _, m := range r.modules {
		dir, err := r.directory(m)
		if err != nil {
			return err
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		found := false
		for _, f := range files {
			if f.IsDir() || !licenseFile.MatchString(f.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			found = true
			fmt.Fprintf(&all, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, f.Name(), bytes.TrimSpace(text))
		}
		if !found {
			return fmt.Errorf("%s %s has no file with its license in %s", m.path, m.version, dir)
		}
	}
	r.licenses = all.Bytes()
	return nil
}

// directory is where the source of a module is.
func (r *release) directory(m module) (string, error) {
	args := []string{"-C", r.source, "list", "-m", "-f", "{{.Dir}}", m.path}
	if m.path == "std" {
		args = []string{"env", "GOROOT"}
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "", fmt.Errorf("where is the source of %s: %w", m.path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// An spdxPackage is a part of the programs, in the words of SPDX.
type spdxPackage struct {
	ID               string         `json:"SPDXID"`
	Name             string         `json:"name"`
	Version          string         `json:"versionInfo"`
	Download         string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	LicenseConcluded string         `json:"licenseConcluded"`
	LicenseDeclared  string         `json:"licenseDeclared"`
	Copyright        string         `json:"copyrightText"`
	Comment          string         `json:"comment,omitempty"`
	Refs             []spdxRef      `json:"externalRefs"`
	Checksums        []spdxChecksum `json:"checksums,omitempty"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRelation struct {
	Of   string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const noAssertion = "NOASSERTION"

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// part describes a part by its package URL: pkg:TYPE/NAME@VERSION.
func part(kind, name, version string) spdxPackage {
	return spdxPackage{
		ID: "SPDXRef-" + kind + "-" + notInIDs.ReplaceAllString(name+"-"+version, "-"), Name: name, Version: version, Download: noAssertion,
		LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, Copyright: noAssertion,
		Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:" + kind + "/" + strings.ReplaceAll(name, "@", "%40") + "@" + strings.ReplaceAll(version, "+", "%2B")}},
	}
}

// writeBill writes the list of all parts of the programs (SBOM), in the format SPDX 2.3.
func (r *release) writeBill() error {
	own := part("golang", "github.com/tetherexec/tether", r.version)
	own.ID, own.Name, own.LicenseDeclared, own.LicenseConcluded = "SPDXRef-tether", "tether", "Apache-2.0", "Apache-2.0"
	own.Download = "git+" + homepage + "@" + r.commit
	for _, p := range r.platforms {
		sum, err := os.ReadFile(filepath.Join(r.out, r.archive(p)))
		if err != nil {
			return err
		}
		own.Comment += fmt.Sprintf("%s SHA256 %x\n", r.archive(p), sha256.Sum256(sum))
	}
	packages, relations := []spdxPackage{own}, []spdxRelation{{"SPDXRef-DOCUMENT", "DESCRIBES", own.ID}}
	for _, m := range r.modules {
		p := part("golang", m.path, m.version)
		if m.sum != "" {
			p.Comment = "go.sum " + m.sum
		}
		packages = append(packages, p)
		relations = append(relations, spdxRelation{own.ID, "CONTAINS", p.ID})
	}
	page, err := r.pageParts()
	if err != nil {
		return err
	}
	for _, p := range page {
		packages = append(packages, p)
		relations = append(relations, spdxRelation{own.ID, "CONTAINS", p.ID})
	}
	text, err := json.MarshalIndent(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "tether " + r.version,
		"documentNamespace": homepage + "/spdx/" + r.version + "-" + r.commit,
		"creationInfo":      map[string]any{"created": r.time.Format("2006-01-02T15:04:05Z"), "creators": []string{"Tool: tether-tools-release"}},
		"packages":          packages, "relationships": relations,
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.write("tether_"+r.number()+".spdx.json", append(text, '\n'))
}

// pageParts are the npm packages in the page of the console.
func (r *release) pageParts() (parts []spdxPackage, err error) {
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := readJSON(filepath.Join(r.source, "internal/console/web/package-lock.json"), &lock); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(lock.Packages)) {
		name, installed := strings.CutPrefix(path, "node_modules/")
		if p := lock.Packages[path]; installed && !p.Dev {
			one := part("npm", name, p.Version)
			one.LicenseDeclared = cmp.Or(p.License, noAssertion)
			parts = append(parts, one)
		}
	}
	return parts, nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
