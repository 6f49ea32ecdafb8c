package fleettest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
)

// maxRecords is how many entries of the directory Recorded reads.
const maxRecords = 1000

// Recorded returns the keys of the sessions that the directory has records of. bus has the rights of a gateway.
func Recorded(t testing.TB, bus *nats.Conn) map[string]bool {
	t.Helper()
	answers := bus.NewInbox()
	sub, err := bus.SubscribeSync(answers)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	prefix := fleet.KeySubject(fleet.SessionsBucket, "")
	request := fmt.Sprintf(`{"seq":1,"batch":%d,"next_by_subj":%q}`, maxRecords, prefix+">")
	if err := bus.PublishRequest("$JS.API.DIRECT.GET."+fleet.Stream(fleet.SessionsBucket), answers, []byte(request)); err != nil {
		t.Fatal(err)
	}
	for keys := map[string]bool{}; ; {
		m, err := sub.NextMsg(Patience)
		switch {
		case err != nil:
			t.Fatal(err)
		case m.Header.Get("Status") != "":
			return keys
		case m.Header.Get("KV-Operation") == "": // it was not removed
			keys[strings.TrimPrefix(m.Header.Get("Nats-Subject"), prefix)] = true
		}
	}
}
