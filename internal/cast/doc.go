// Package cast reads and writes recordings of terminals in the format asciicast, version 2: a line with a header, and a line for each
// event, all of them JSON. Players of this format exist for terminals and for browsers.
//
// A Writer makes a recording of the output of a process. What it writes is text: bytes that are not UTF-8 become U+FFFD, and a character
// whose bytes arrive in several events is written as a whole. A Reader reads the recordings of any program within limits: a line, a time
// or a size that is too large is an error, and so is a file in another format.
package cast
