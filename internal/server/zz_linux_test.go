package server_test
import ("testing";"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest";"time";"encoding/json")
func TestZZ(t *testing.T){
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	var sb any
	json.Unmarshal([]byte(`{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"/tmp"}`), &sb)
	for _,tty := range []bool{false,true} {
	id := map[bool]string{false:"p",true:"q"}[tty]
	m := c.Call("process/start", tethertest.Shell(id, "cat; true", map[string]any{"tty":tty,"pipeStdin":!tty,"sandbox":sb}))
	t.Logf("%s", m.Raw)
	time.Sleep(700*time.Millisecond)
	t0:=time.Now(); m=c.Call("tether/process/state", map[string]any{"processId": id}); t.Logf("%v %s", time.Since(t0),m.Raw)
	c.Terminate(id)
	}
}
