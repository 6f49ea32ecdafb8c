// Package arena is memory that outlives the process that uses it: the worker maps it, the
// keeper holds its descriptor, and the next worker finds in it what the last one had.
//
// It is one memory file of fixed size, sparse and sealed, mapped once. With [Config.Path] it has a name instead of
// seals, so that it also outlives the keeper. The file is in memory in either case: a page of a file on disk is
// protected against writing while it is written back, and if the process is killed at that moment, the kernel drops a
// position or a process number that it wanted to store there.
//
//	header    version, geometry, which half of the journal counts
//	slots     512 bytes for each process: all that changes about it
//	journal   two halves of records: what is written once and kept
//	blocks    the logs of the processes: entries and their bytes
//	input     a range for each slot: input that the process has not read yet (not mapped)
//
// It promises, for a process that dies at any instruction:
//
//   - A word has its old or its new value. Each word has one writer at a time.
//   - Everything larger is written beside the old content and becomes valid by the store of
//     one word: a slot by its state, a record of the journal by the journal's length, a
//     record of a block by the block's count, a block by the position of its log, a half of
//     the journal by the index in the header.
//   - What is in use is derived from the slots and never stored a second time: a block
//     belongs to the log whose chain it is in, any other block is free.
//   - A store never meets a missing page, which would be SIGBUS: the pages of everything
//     that is stored to are allocated first, and that may fail with an error.
//
// Open checks everything that it follows, so damaged content is an error and never a panic. Damage
// in one slot is reported with that slot and leaves the others usable.
//
// Each store goes through a Word, or is followed by a crash.Point, so that tests can end the process
// behind each of them.
//
// Where a change belongs: layout.go has the format, which Version numbers; word.go the
// stores; slot.go and block.go what is handed out and taken back; input.go the input of processes; journal.go the journal;
// recover.go what Open finds; memory_*.go system calls. What the words of a slot mean is
// decided by the packages that store them: outlog for the log, proc for the process.
package arena
