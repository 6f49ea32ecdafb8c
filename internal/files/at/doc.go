// Package at is the foundation of the packages about files: calls on names in open directories, like the
// system calls whose names end in "at". Changes to the directories above cannot redirect a name in an open
// directory. The package keeps no state and makes no decisions.
//
//   - open_linux.go opens paths that lead through no symbolic link. It uses openat2 where the system has it, and
//     opens one name after the other elsewhere, which is as safe but slower: a link that appears meanwhile is
//     never followed.
//   - descriptor_linux.go asks the kernel about descriptors, and repeats calls that a signal interrupts.
//   - temporary_linux.go makes files that appear, or replace others, once they are whole; attributes_linux.go gives a
//     file the owner and the attributes of another.
//
// These searches are not here, because each returns something else than an open directory and a name.
// files/confined/helper needs the real path of a file, also of one that does not exist yet, to apply rules to it.
// files/watch keeps every directory of the path open. files/upload follows the links at the end of a path itself,
// because it replaces the target of the last one. sandbox resolves paths over an interface, so that a plan can be
// made for a machine that exists only in a test. proc looks for a program in PATH. The partial files of `tether
// cp` are not made here either: they have to survive the process, and exist on every platform.
package at
