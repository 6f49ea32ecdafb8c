// Package files is the filesystem part of the protocol: what a client may ask
// about files of this machine.
package files
