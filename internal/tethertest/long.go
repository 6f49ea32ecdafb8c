package tethertest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// longString is the length from which a string of a message does not go through encoding/json.
const longString = 1024

// longStrings are the contents of strings that were taken out of a JSON text.
type longStrings [][]byte

// placeholder replaces the string with number i.
func placeholder(i int) string { return fmt.Sprintf("tethertest: string %d was taken out", i) }

// takeOut replaces all long strings of a JSON text without escapes, most of which are base64. With the race detector,
// encoding/json takes a microsecond for ten bytes of them, and it would see each of them four times.
func takeOut(text []byte) (short []byte, long longStrings) {
	if len(text) < longString {
		return text, nil
	}
	for from := 0; ; {
		begin := bytes.IndexByte(text[from:], '"') + 1
		if begin == 0 {
			return append(short, text[from:]...), long
		}
		begin += from
		content, escaped := firstString(text[begin:])
		short = append(short, text[from:begin]...)
		if len(content) >= longString && !escaped {
			short = append(short, placeholder(len(long))...)
			long = append(long, content)
		} else {
			short = append(short, content...)
		}
		from = begin + len(content)
		if from < len(text) { // the quotation mark
			short = append(short, text[from])
			from++
		}
	}
}

// firstString returns the text up to the quotation mark that ends a string. A string without an end ends with the text, which
// encoding/json refuses.
func firstString(text []byte) (content []byte, escaped bool) {
	for end := 0; ; end++ {
		next := bytes.IndexByte(text[end:], '"')
		if next < 0 {
			return text, escaped
		}
		end += next
		backslashes := end - len(bytes.TrimRight(text[:end], `\`))
		escaped = escaped || bytes.IndexByte(text[:end], '\\') >= 0
		if backslashes%2 == 0 {
			return text[:end], escaped
		}
	}
}

// putBack returns a part of the short text with the strings that were taken out of it.
func (l longStrings) putBack(part []byte) []byte {
	for i, content := range l {
		part = bytes.Replace(part, []byte(placeholder(i)), content, 1)
	}
	return part
}

// text returns the value of a string field of the short text.
func (l longStrings) text(value string) string {
	for i, content := range l {
		if value == placeholder(i) {
			return string(content)
		}
	}
	return value
}

// decodeEvent decodes the parameters of a notification about a process.
func decodeEvent(params []byte, e *Event) (err error) {
	short, long := takeOut(params)
	if long == nil {
		return json.Unmarshal(params, e)
	}
	parts := struct {
		*Event
		Chunk string `json:"chunk"`
	}{Event: e}
	if err := json.Unmarshal(short, &parts); err != nil {
		return err
	}
	e.ProcessID = long.text(e.ProcessID)
	e.Chunk, err = base64.StdEncoding.DecodeString(long.text(parts.Chunk))
	return err
}

// decodeMessage decodes what the server has sent.
func decodeMessage(raw []byte, m *Message) error {
	short, long := takeOut(raw)
	if err := json.Unmarshal(short, m); err != nil || long == nil {
		return err
	}
	if m.Error != nil {
		*m = Message{}
		return json.Unmarshal(raw, m)
	}
	m.ID, m.Method = long.putBack(m.ID), long.text(m.Method)
	m.Params, m.Result = long.putBack(m.Params), long.putBack(m.Result)
	return nil
}
