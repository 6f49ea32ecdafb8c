package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// serverName is the name in the registry of MCP servers.
const serverName = "io.github.tetherexec/tether"

// download is the address of a file of this release.
func (r *release) download(name string) string {
	return homepage + "/releases/download/" + strings.ReplaceAll(r.version, "+", "%2B") + "/" + strings.ReplaceAll(name, "+", "%2B")
}

// writeFormula writes the formula for Homebrew.
func (r *release) writeFormula() error {
	var b strings.Builder
	fmt.Fprintf(&b, `class Tether < Formula
  desc %q
  homepage %q
  version %q
  license "Apache-2.0"

`, summary, homepage, r.number())
	for _, system := range []struct{ os, block string }{{"darwin", "on_macos"}, {"linux", "on_linux"}} {
		fmt.Fprintf(&b, "  %s do\n", system.block)
		for _, processor := range []struct{ arch, block string }{{"amd64", "on_intel"}, {"arm64", "on_arm"}} {
			name := r.archive(platform{system.os, processor.arch})
			if sum, built := r.checksums[name]; built {
				fmt.Fprintf(&b, "    %s do\n      url %q\n      sha256 %q\n    end\n", processor.block, r.download(name), sum)
			}
		}
		b.WriteString("  end\n\n")
	}
	b.WriteString(`  def install
    bin.install Dir["bin/*"]
    man1.install Dir["man/man1/*"]
    bash_completion.install "completions/bash/tether"
    zsh_completion.install "completions/zsh/_tether"
    fish_completion.install "completions/fish/tether.fish"
    doc.install "CHANGELOG.md", "THIRD-PARTY-LICENSES"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tether version")
    assert_equal "hello", shell_output("#{bin}/tether run -- echo hello").chomp
  end
end
`)
	return r.write("tether.rb", []byte(b.String()))
}

// writeServerJSON writes the entry for the registry of MCP servers: server.json of the source, with the version of this release.
func (r *release) writeServerJSON() error {
	var server struct {
		Schema      string            `json:"$schema"`
		Name        string            `json:"name"`
		Title       string            `json:"title"`
		Description string            `json:"description"`
		Version     string            `json:"version"`
		Website     string            `json:"websiteUrl"`
		Repository  map[string]string `json:"repository"`
		Packages    []struct {
			Type        string          `json:"registryType"`
			Identifier  string          `json:"identifier"`
			Transport   json.RawMessage `json:"transport"`
			Arguments   json.RawMessage `json:"packageArguments"`
			Environment json.RawMessage `json:"environmentVariables"`
		} `json:"packages"`
	}
	path := filepath.Join(r.source, "server.json")
	if err := readJSON(path, &server); err != nil {
		return err
	}
	if server.Name != serverName || len(server.Description) > 100 {
		return fmt.Errorf("%s: the registry wants the name %s and a description of at most 100 characters", path, serverName)
	}
	server.Version = r.number()
	for i, p := range server.Packages {
		if p.Type != "oci" || !strings.HasPrefix(p.Identifier, imageName+":") {
			return fmt.Errorf("%s: package %s is not the image %s", path, p.Identifier, imageName)
		}
		server.Packages[i].Identifier = imageName + ":" + imageTag(r.number())
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(server); err != nil {
		return err
	}
	return r.write("server.json", b.Bytes())
}
