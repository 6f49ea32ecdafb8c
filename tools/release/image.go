package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Media types of OCI images.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// imageUser is the id of the user of the image; 65532 is what images without root commonly use.
const imageUser = 65532

// A descriptor refers to a blob of an image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// An index lists images for platforms, or names in a layout.
type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// A layout collects the blobs of an image, for a tar archive in the form of the OCI image layout.
type layout struct{ entries []entry }

// add adds a blob.
func (l *layout) add(mediaType string, content []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	name := "blobs/sha256/" + sum
	if !slices.ContainsFunc(l.entries, func(e entry) bool { return e.name == name }) {
		l.entries = append(l.entries, entry{name: name, mode: 0o644, content: content})
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}
}

// addJSON adds a blob that is a JSON object.
func (l *layout) addJSON(mediaType string, object any) (descriptor, error) {
	content, err := json.Marshal(object)
	return l.add(mediaType, content), err
}

// writeImage writes an image for all processors of Linux. It has nothing but tether: as a base for other images, and for clients.
func (r *release) writeImage() error {
	var l layout
	images := index{SchemaVersion: 2, MediaType: typeIndex, Annotations: r.labels()}
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		image, err := r.addImage(&l, p)
		if err != nil {
			return err
		}
		images.Manifests = append(images.Manifests, image)
	}
	if images.Manifests == nil {
		return nil
	}
	all, err := l.addJSON(typeIndex, images)
	if err != nil {
		return err
	}
	tag := imageTag(r.number())
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": imageName + ":" + tag}
	top, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{all}})
	if err != nil {
		return err
	}
	l.entries = append(l.entries,
		entry{name: "index.json", mode: 0o644, content: top},
		entry{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		entry{name: "blobs", mode: fs.ModeDir | 0o755}, entry{name: "blobs/sha256", mode: fs.ModeDir | 0o755})
	sortEntries(l.entries)
	content, err := tarred(l.entries, r.time)
	if err != nil {
		return err
	}
	return r.write("tether_"+r.number()+"_oci.tar", content)
}

// imageTag is a version as a tag of an image, which cannot have a plus sign.
func imageTag(number string) string { return strings.ReplaceAll(number, "+", "-") }

// labels say what the image is.
func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "tether",
		"org.opencontainers.image.description": summary,
		"org.opencontainers.image.version":     r.number(),
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.time.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.source":      homepage,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		// The registry of MCP servers compares it with the name in server.json.
		"io.modelcontextprotocol.server.name": serverName,
	}
}

// addImage adds the image for one processor.
func (r *release) addImage(l *layout, p platform) (descriptor, error) {
	files, err := r.imageFiles(p)
	if err != nil {
		return descriptor{}, err
	}
	layer, err := tarred(files, r.time)
	if err != nil {
		return descriptor{}, err
	}
	compressed, err := gzipped(layer)
	if err != nil {
		return descriptor{}, err
	}
	config, err := l.addJSON(typeConfig, map[string]any{
		"created": r.time.Format("2006-01-02T15:04:05Z"), "os": p.os, "architecture": p.arch,
		"config": map[string]any{
			"User": fmt.Sprintf("%d:%[1]d", imageUser), "Entrypoint": []string{"/usr/bin/tether"}, "WorkingDir": "/home/tether",
			"Env":    []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/tether"},
			"Labels": r.labels(),
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		"history": []any{map[string]string{"created": r.time.Format("2006-01-02T15:04:05Z"), "created_by": "make release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	image, err := l.addJSON(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{l.add(typeLayer, compressed)}, "annotations": r.labels(),
	})
	image.Platform = map[string]string{"os": p.os, "architecture": p.arch}
	return image, err
}

// imageFiles are the files of the image.
func (r *release) imageFiles(p platform) (entries []entry, err error) {
	all, err := r.payload(p)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		switch {
		case strings.HasPrefix(e.name, "bin/"):
			e.name = "usr/" + e.name
		case e.name == "LICENSE" || e.name == "THIRD-PARTY-LICENSES":
			e.name = "usr/share/doc/tether/" + e.name
		default:
			continue
		}
		entries = append(entries, e)
	}
	for _, name := range []string{"etc", "home", "usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/doc/tether"} {
		entries = append(entries, entry{name: name, mode: fs.ModeDir | 0o755})
	}
	entries = append(entries,
		entry{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0::/:/bin/sh\ntether:x:%d:%[1]d::/home/tether:/bin/sh\n", imageUser)},
		entry{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\ntether:x:%d:\n", imageUser)},
		entry{name: "home/tether", mode: fs.ModeDir | 0o700, owner: imageUser},
		entry{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777})
	sortEntries(entries)
	return entries, nil
}
