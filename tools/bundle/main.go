// Command bundle makes the files of the console's page out of their sources: bundle SOURCES OUT writes them to a directory,
// compressed; bundle -test SOURCES OUT bundles each test for node.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// maxPage is how large the page may be, compressed.
const maxPage = 600 << 10

// modules are the packages of which the page has code; their licenses come with it.
var modules = []string{"@xterm/xterm", "@xterm/addon-fit", "@xterm/addon-search", "@xterm/addon-web-links"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bundle: ")
	test := flag.Bool("test", false, "bundle the tests")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: bundle [-test] SOURCES OUT")
	}
	sources, out := flag.Arg(0), flag.Arg(1)
	run := page
	if *test {
		run = tests
	}
	if err := run(sources, out); err != nil {
		log.Fatal(err)
	}
}

// page writes the files of the page.
func page(sources, out string) error {
	files, err := build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: filepath.Join(sources, "src/main.ts"), OutputPath: "console"},
			{InputPath: filepath.Join(sources, "src/page.css"), OutputPath: "console"},
		},
		Outdir: out, Bundle: true, Format: api.FormatESModule, Target: api.ES2022, LegalComments: api.LegalCommentsNone,
		MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true,
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"index.html", "icon.svg"} {
		if files[name], err = os.ReadFile(filepath.Join(sources, "src", name)); err != nil {
			return err
		}
	}
	if files["licenses.txt"], err = licenses(sources); err != nil {
		return err
	}
	total := 0
	for name, content := range files {
		compressed, err := compress(content)
		if err != nil {
			return err
		}
		total += len(compressed)
		if err := os.WriteFile(filepath.Join(out, name+".gz"), compressed, 0o644); err != nil {
			return err
		}
	}
	if total > maxPage {
		return fmt.Errorf("the page has %d bytes compressed, more than %d", total, maxPage)
	}
	fmt.Printf("the console's page has %d KiB compressed\n", (total+1023)>>10)
	return nil
}

// tests writes a program for each test.
func tests(sources, out string) error {
	found, err := filepath.Glob(filepath.Join(sources, "src/*.test.ts"))
	if err != nil || len(found) == 0 {
		return errors.Join(errors.New("there are no tests"), err)
	}
	files, err := build(api.BuildOptions{
		EntryPoints: found, Outdir: out, Bundle: true, Format: api.FormatESModule, Target: api.ES2022, Platform: api.PlatformNode,
		OutExtension: map[string]string{".js": ".mjs"}, Sourcemap: api.SourceMapInline,
	})
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// build returns the files that esbuild makes, by name.
func build(options api.BuildOptions) (map[string][]byte, error) {
	options.LogLevel = api.LogLevelWarning
	result := api.Build(options)
	if len(result.Errors) > 0 {
		return nil, errors.New("the page cannot be bundled")
	}
	if err := os.MkdirAll(options.Outdir, 0o755); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, nil
}

// licenses returns the licenses of the packages whose code is in the page.
func licenses(sources string) ([]byte, error) {
	var b strings.Builder
	b.WriteString("The console's page contains code of the following packages.\n")
	for _, module := range slices.Sorted(slices.Values(modules)) {
		text, err := os.ReadFile(filepath.Join(sources, "node_modules", filepath.FromSlash(module), "LICENSE"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n%s\n\n%s\n", module, bytes.TrimSpace(text))
	}
	return []byte(b.String()), nil
}

// compress returns the gzip of a file: always the same bytes for the same content.
func compress(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(content)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}
