// Package discover finds the plugins and skills that agents may use on this
// machine: in directories that a client names, and in those of the server's user.
//
// It reads files only through a [files.Files], so that a client that asks for a
// sandbox learns nothing that the sandbox hides. If a file cannot be read, the
// answer has a warning, and the search goes on.
//
// Where a change belongs: roots.go answers for directories of the client,
// capabilities.go for those of the user; scan.go searches one directory; plugin.go
// and version.go read the plugin cache; manifest.go and compact.go read JSON;
// skill.go and yaml.go read the files of skills.
package discover
