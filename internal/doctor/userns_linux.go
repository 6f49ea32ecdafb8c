package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/internal/reexec"
	_ "github.com/tetherexec/tether/internal/sandbox/probe" // the helper that tries what sandboxes should prevent
)

// tryUserNamespace starts a command in a user namespace of its own, as sandboxes
// do.
func tryUserNamespace(ctx context.Context, self string, env []string) error {
	argv := reexec.Argv(self, reexec.Probe, "ok")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = append([]string{}, env...), "/" // not nil, which would be our environment
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("a command cannot be started in one: %s", oserr.Text(cause(err)))
	}
	return nil
}

func cause(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}
