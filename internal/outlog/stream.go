package outlog

// Stream says where output came from.
type Stream uint8

// The streams of a process: two pipes, or one terminal.
const (
	Stdout Stream = iota + 1
	Stderr
	PTY
)

// String is the stream's name on the wire.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case PTY:
		return "pty"
	}
	return "unknown"
}
