// Package discover finds the plugins and skills that agents may use on this
// machine: in directories that a client names, and in those of the server's user.
//
// It looks at files only through an [files.Files], so that a client which asks on
// behalf of a sandbox learns nothing that the sandbox hides. What cannot be read
// is a warning in the answer, never the end of the search.
package discover
