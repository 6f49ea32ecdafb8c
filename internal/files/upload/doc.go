// Package upload receives files in blocks, over any number of connections, and
// puts each in its place in one step: a target has its old content or, after a
// commit with the right SHA-256, all of the new one.
//
// Until then the bytes lie in a hidden file beside the target, which only this
// user can read. The target's directory is looked up once, when the upload is
// opened, and its descriptor is kept: a directory that is moved takes the upload
// along, and a link put in its place leads nobody astray. Like any rename, a commit
// gives the target a new inode, so other hard links to it keep the old content.
//
// An upload ends with its commit, an abort, the session or [IdleLimit]. What a
// server that was killed leaves behind stands in its [Journal], for the next one to
// [Sweep].
package upload
