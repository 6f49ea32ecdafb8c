package tethertest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// Upload uploads size bytes of a pattern in blocks to a file of the server at url, over a connection that is cut several times. It
// returns their SHA-256.
func Upload(t testing.TB, url, target string, seed uint64, size int64, block, cuts int) [sha256.Size]byte {
	t.Helper()
	cable := LayCable(t, url)
	c := Dial(t, cable.URL())
	session := c.Handshake("").SessionID
	open := map[string]any{"uploadId": "u", "path": wire.PathToURI(target), "size": size}
	blocks := int((size + int64(block) - 1) / int64(block))
	cutAt := map[int]bool{}
	for len(cutAt) < min(cuts, blocks) {
		cutAt[rand.IntN(blocks)] = true
	}
	sum, source := sha256.New(), Pattern(seed, size)
	buf := make([]byte, block)
	var at wire.UploadOpenResult
	c.Must(wire.MethodUploadOpen, open, &at)
	for i := range blocks {
		n, err := io.ReadFull(source, buf)
		if err != nil && err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
		sum.Write(buf[:n])
		offset := uint64(i) * uint64(block)
		write := map[string]any{"uploadId": "u", "offset": offset, "chunk": base64.StdEncoding.EncodeToString(buf[:n])}
		if cutAt[i] {
			c.Ask(wire.MethodUploadWrite, write) // it may arrive or not
			cable.Cut()
			cable.Mend()
			c.Close()
			c = Resume(t, cable.URL(), session)
			c.Must(wire.MethodUploadOpen, open, &at)
			if at.Offset >= offset+uint64(n) {
				continue
			}
			if at.Offset != offset {
				t.Fatalf("after a cut the upload goes on at %d instead of %d", at.Offset, offset)
			}
		}
		c.Must(wire.MethodUploadWrite, write, &wire.UploadWriteResult{})
	}
	digest := [sha256.Size]byte(sum.Sum(nil))
	c.Must(wire.MethodUploadCommit, map[string]any{"uploadId": "u", "sha256": hex.EncodeToString(digest[:])}, &wire.Empty{})
	c.Close()
	return digest
}

// Resume resumes a session as soon as the server has noticed the end of the old connection.
func Resume(t testing.TB, url, session string) (c *Client) {
	t.Helper()
	Eventually(t, func() error {
		c = Dial(t, url)
		m := c.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": session})
		if m.Error != nil {
			c.Close()
			return fmt.Errorf("answered %s", m.Raw)
		}
		return nil
	})
	c.Notify("initialized", struct{}{})
	return c
}
