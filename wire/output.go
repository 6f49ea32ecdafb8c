package wire

import (
	"bytes"
	"errors"

	"github.com/segmentio/asm/base64" // vectorised: decoding takes most of a client's time
)

// An OutputNote is the notification process/output as ParseOutput reads it. It aliases
// the message.
type OutputNote struct {
	ProcessID []byte
	Seq       uint64
	Stream    string
	Chunk     []byte
}

var (
	outputHead   = []byte(`{"method":"process/output","params":{"processId":"`)
	outputSeq    = []byte(`","seq":`)
	outputStream = []byte(`,"stream":"`)
	outputChunk  = []byte(`","chunk":"`)
	outputTail   = []byte(`"}}`)

	fastBase64 = base64.StdEncoding.Strict()
)

var errChunkBase64 = errors.New("chunk is not base64")

// ParseOutput reads process/output, the notification that clients get most often, in the form in
// which servers write it. For any other message it returns taken = false, and Parse has to read
// it. If taken is true, the message was changed: its output is decoded in place.
func ParseOutput(msg []byte) (n OutputNote, taken bool, err error) {
	rest, ok := bytes.CutPrefix(msg, outputHead)
	if !ok {
		return n, false, nil
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 || !isPlain(rest[:end]) {
		return n, false, nil
	}
	n.ProcessID, rest = rest[:end], rest[end:]
	if rest, ok = bytes.CutPrefix(rest, outputSeq); !ok {
		return n, false, nil
	}
	if n.Seq, rest, ok = cutNumber(rest); !ok {
		return n, false, nil
	}
	if rest, ok = bytes.CutPrefix(rest, outputStream); !ok {
		return n, false, nil
	}
	for _, stream := range [...]string{StreamStdout, StreamStderr, StreamPTY} {
		if len(rest) > len(stream) && string(rest[:len(stream)]) == stream && rest[len(stream)] == '"' {
			n.Stream, rest = stream, rest[len(stream):]
		}
	}
	if rest, ok = bytes.CutPrefix(rest, outputChunk); !ok || n.Stream == "" {
		return n, false, nil
	}
	n.Chunk, taken, err = cutChunk(rest)
	return n, taken, err
}

// cutChunk decodes base64 in place, up to the end of a notification. If taken is false, nothing was changed.
func cutChunk(rest []byte) (chunk []byte, taken bool, err error) {
	rest, ok := bytes.CutSuffix(rest, outputTail)
	if !ok || len(rest)%4 != 0 {
		return nil, false, nil
	}
	if bytes.IndexByte(rest, '"') >= 0 || bytes.IndexByte(rest, '\\') >= 0 {
		return nil, false, nil // more members, or an escaped slash
	}
	want := len(rest)/4*3 - padding(rest)
	decoded, err := fastBase64.Decode(rest, rest)
	if err != nil || decoded != want {
		return nil, true, errChunkBase64
	}
	return rest[:decoded:decoded], true, nil
}

// isPlain reports whether the text of a JSON string has no escapes.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '\\' {
			return false
		}
	}
	return true
}

// cutNumber reads an integer.
func cutNumber(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == 0 || i > 19 || b[0] == '0' && i > 1 { // 19 digits always fit
		return 0, b, false
	}
	for _, c := range b[:i] {
		n = n*10 + uint64(c-'0')
	}
	return n, b[i:], true
}
