// Package upload receives files in blocks, over any number of connections, and
// replaces each target in one step: a target has its old content or, after a
// commit with the right SHA-256, all of the new one.
//
// Until then the bytes are in a hidden file beside the target, which only this
// user can read. The target's directory is looked up once, when the upload is
// opened, and its descriptor is kept: if the directory is moved, the upload
// moves with it, and a link in its old place changes nothing. Like any rename, a
// commit gives the target a new inode, so other hard links to it keep the old
// content.
//
// An upload ends with its commit, an abort, the session or [IdleLimit]. If a server
// is killed, its [Journal] lists the files that it leaves behind, and the next server
// removes them with [Sweep]. With a [Record], another program of the same server goes on with the uploads of one that has
// died: it gets the descriptors, and the state as it was after the last block.
//
// Where a change belongs: table.go has the uploads of a session and their order, upload.go one of them;
// place_linux.go finds the target; temporary_linux.go and attributes_linux.go make the hidden file and decide
// what it keeps of the file that it replaces; spans.go and digest.go track the received bytes;
// journal.go lists the hidden files for the next server; record.go is for another program of the same server.
package upload
