package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Begin answers a start and returns the id of the process.
func (p *Peer) Begin() (id string) {
	m := p.Expect("process/start")
	var params struct {
		ProcessID string `json:"processId"`
	}
	json.Unmarshal(m.Params, &params)
	p.Say(m.Answer(fmt.Sprintf(`{"processId":%q,"sandboxType":"none"}`, params.ProcessID)))
	return params.ProcessID
}

// Events returns notifications of a process from an abbreviation: "o3" is output with number 3, "x4" the exit, "c5" the close. The
// output of o3 is "3;".
func Events(process string, words string) (messages []string) {
	for _, w := range strings.Fields(words) {
		var seq int
		fmt.Sscanf(w[1:], "%d", &seq)
		switch w[0] {
		case 'o':
			messages = append(messages, fmt.Sprintf(`{"method":"process/output","params":{"processId":%q,"seq":%d,"stream":"stdout","chunk":%s}}`, process, seq, Chunk(seq)))
		case 'x':
			messages = append(messages, fmt.Sprintf(`{"method":"process/exited","params":{"processId":%q,"seq":%d,"exitCode":0,"sandboxDenied":false}}`, process, seq))
		case 'c':
			messages = append(messages, fmt.Sprintf(`{"method":"process/closed","params":{"processId":%q,"seq":%d}}`, process, seq))
		}
	}
	return messages
}

// Chunk returns the output of an event as JSON.
func Chunk(seq int) string {
	b, _ := json.Marshal([]byte(fmt.Sprintf("%d;", seq)))
	return string(b)
}

// ReadAnswer returns the result of a read with the output of these numbers and the next number.
func ReadAnswer(next int, exited, closed bool, seqs ...int) string {
	var chunks []string
	for _, seq := range seqs {
		chunks = append(chunks, fmt.Sprintf(`{"seq":%d,"stream":"stdout","chunk":%s}`, seq, Chunk(seq)))
	}
	code := "null"
	if exited {
		code = "0"
	}
	return fmt.Sprintf(`{"chunks":[%s],"nextSeq":%d,"exited":%t,"exitCode":%s,"closed":%t,"failure":null,"sandboxDenied":false}`,
		strings.Join(chunks, ","), next, exited, code, closed)
}
