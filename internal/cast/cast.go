package cast

import "time"

// Limits of recordings.
const (
	// MaxLine is the longest line that a Reader accepts, in bytes. A Writer's lines are shorter: maxText in the longest escapes.
	MaxLine = 1 << 20

	// MaxSize is the largest width and height.
	MaxSize = 1<<16 - 1

	// MaxTime is the longest recording.
	MaxTime = 10 * 365 * 24 * time.Hour

	maxText  = 64 << 10 // bytes of output in one event of a Writer
	maxTitle = 1 << 10  // bytes of the title of a Writer
)

// Version is the version of the format that this package reads and writes.
const Version = 2

// A Header describes a recording.
type Header struct {
	Width, Height int           // of the terminal, in columns and rows
	Start         time.Time     // zero if it is not known
	Title         string        // may be empty
	Idle          time.Duration // players should make no pause longer than this; 0: the recording does not say
}

// The kinds of events. Players skip other kinds.
const (
	Output = "o" // text for the terminal
	Input  = "i" // what the user typed
	Resize = "r" // the new size of the terminal, as in "80x24"
	Marker = "m" // a place in the recording, with a label
)

// An Event is something that happened during a recording.
type Event struct {
	Time time.Duration // since the start of the recording
	Kind string
	Text string
}
