package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, cable.URL(), client.Options{})
	if info, err := c.Environment(tethertest.Within(t)); err != nil || info.PlatformOS == "" || fmt.Sprint(info) == "" {
		t.Errorf("Environment: %+v, %v", info, err)
	}
	cable.Cut()
	cable.Mend()
	if err := c.Ping(tethertest.Within(t)); err != nil {
		t.Errorf("Ping: %v", err)
	}
	if n := c.Status().Connection; n != 2 {
		t.Errorf("%d connections", n)
	}
	c.Close()
	if err := c.Ping(tethertest.Within(t)); !errors.Is(err, client.ErrClosed) {
		t.Errorf("Ping of a closed client: %v", err)
	}
}

func TestEnvironmentThatIsNotReady(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		p := s.Accept()
		p.Welcome("S")
		p.Serve("environment/status", `{"status":"tired"}`)
	})
	c := dial(t, s.URL(), client.Options{})
	if err := c.Ping(tethertest.Within(t)); err == nil || !strings.Contains(err.Error(), "tired") {
		t.Errorf("Ping: %v", err)
	}
	wait()
}
