// Package files reads and changes the files of an executor through a [client.Client]:
//
//	data, err := files.Of(c).ReadFile(ctx, "/etc/hostname")
//
// It promises the same as a client for its processes: a lost connection is a delay. A request
// that only reads is repeated. A request that changes something is repeated only if it surely
// was not sent; otherwise its error is [client.ErrAmbiguous]. After a lost connection, uploads
// and downloads of any size continue where they stopped.
//
// Where a change belongs: files.go has the operations that are one request, file.go the
// open [File] that reads ahead, fs.go the [io/fs.FS], upload.go uploads and downloads.
package files
