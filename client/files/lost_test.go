package files_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// If a file cannot be opened again after a lost connection, the next read tries again.
func TestFileOpenedAgainLater(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	const meta = `{"isDirectory":false,"isFile":true,"isSymlink":false,"size":5,"createdAtMs":1,"modifiedAtMs":2}`
	refused := make(chan struct{})
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Welcome("S")
		first.Serve("fs/getMetadata", meta)
		first.Serve("fs/open", `{}`)
		first.Cut()
		again := s.Accept()
		again.Welcome("S")
		again.Say(again.Expect("fs/open").Refuse(-32600, "limit reached: 128 open files"))
		<-refused
		again.Serve("fs/open", `{}`)
		again.Serve("fs/getMetadata", meta)
		again.Serve("fs/readBlock", fmt.Sprintf(`{"chunk":%q,"eof":true}`, base64.StdEncoding.EncodeToString([]byte("hello"))))
	})
	c := dial(t, s.URL(), client.Options{})
	f, err := files.Of(c).Open(tethertest.Within(t), "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err == nil || !strings.Contains(err.Error(), "limit reached") {
		t.Errorf("read %q, %v", b, err)
	}
	close(refused)
	if b, err := io.ReadAll(f); string(b) != "hello" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	wait()
}

// If a file has changed, its new handle is closed.
func TestChangedFileIsClosed(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	meta := func(size int) string {
		return fmt.Sprintf(`{"isDirectory":false,"isFile":true,"isSymlink":false,"size":%d,"createdAtMs":1,"modifiedAtMs":2}`, size)
	}
	handle := func(m scripted.Message) string { return strings.Split(string(m.Params), `"`)[3] }
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Welcome("S")
		first.Serve("fs/getMetadata", meta(5))
		first.Serve("fs/open", `{}`)
		first.Cut()
		again := s.Accept()
		again.Welcome("S")
		opened := again.Expect("fs/open")
		again.Say(opened.Answer(`{}`))
		again.Serve("fs/getMetadata", meta(6))
		if closed := again.Expect("fs/close"); handle(closed) != handle(opened) {
			panic(fmt.Sprintf("opened %s and closed %s", opened.Params, closed.Params))
		}
	})
	c := dial(t, s.URL(), client.Options{})
	f, err := files.Of(c).Open(tethertest.Within(t), "/file")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); !errors.Is(err, files.ErrChanged) {
		t.Errorf("read %q, %v", b, err)
	}
	wait()
	f.Close()
}

// If the answer to a commit is lost and the server refuses the upload afterwards, the outcome is
// ambiguous. A commit that was refused is not.
func TestUploadRefusedAfterLostCommit(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{true, false} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			s := scripted.NewServer(t)
			const refusal = "limit reached: 16 uploads are open"
			wait := scripted.Play(t, func() {
				p := s.Accept()
				p.Greet(scripted.Hello(`"upload"`))
				p.Serve("tether/upload/open", `{"offset":0,"maxBlock":1024,"committed":false}`)
				p.Serve("tether/upload/write", `{"received":5,"offset":5}`)
				m := p.Expect("tether/upload/commit")
				if lost {
					p.Cut()
					p = s.Accept()
					p.Greet(scripted.Hello(`"upload"`))
					m = p.Expect("tether/upload/open")
				}
				p.Say(m.Refuse(-32600, refusal))
				p.Serve("tether/upload/abort", `{}`)
			})
			c := dial(t, s.URL(), client.Options{})
			err := files.Of(c).Upload(tethertest.Within(t), "/file", strings.NewReader("hello"), 5, files.UploadOptions{})
			if errors.Is(err, client.ErrAmbiguous) != lost || !strings.Contains(fmt.Sprint(err), refusal) {
				t.Errorf("Upload: %v", err)
			}
			wait()
		})
	}
}
