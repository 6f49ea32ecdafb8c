// Package files reads and changes the files of an executor through a [client.Client]:
//
//	data, err := files.Of(c).ReadFile(ctx, "/etc/hostname")
//
// It promises what a client promises for its processes: a lost connection is a delay. What
// only looks is repeated; what changes something is repeated only if it surely was not
// sent, and else its error is [client.ErrAmbiguous]. Uploads and downloads of any size go
// on after a lost connection with what is missing.
//
// Where a change belongs: files.go has the operations that are one request, file.go the
// open [File] that reads ahead, fs.go the [io/fs.FS], upload.go uploads and downloads.
package files
