package tethertest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"
)

// AtHome runs tests with an empty home directory, so that the start-up files of the user do not change or delay login shells.
func AtHome(m goleak.TestingM) goleak.TestingM { return atHome{m} }

type atHome struct{ tests goleak.TestingM }

func (h atHome) Run() int {
	dir, err := os.MkdirTemp("", "tether-home-")
	if err == nil {
		err = os.Setenv("HOME", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return h.tests.Run()
}
