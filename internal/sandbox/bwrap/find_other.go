//go:build !unix

package bwrap

import "io/fs"

func ownerTrusted(fs.FileInfo) bool { return false }
