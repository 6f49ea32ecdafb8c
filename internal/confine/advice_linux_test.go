package confine

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/fork"
)

// The advice asks for a restart only if a running server cannot use the change.
func TestAdviceOnRestarts(t *testing.T) {
	for name, row := range map[string]struct {
		settings       map[string]string
		err            error
		root           bool
		has            string
		again, restart bool
	}{
		"no namespaces":        {settings: map[string]string{"user/max_user_namespaces": "0"}, root: true, has: "user.max_user_namespaces=15000", again: true},
		"none for users":       {settings: map[string]string{"kernel/unprivileged_userns_clone": "0"}, has: "kernel.unprivileged_userns_clone=1", again: true},
		"AppArmor":             {settings: map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1"}, has: "`userns,`", again: true, restart: true},
		"AppArmor, for root":   {settings: map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1"}, root: true, has: "tether doctor"},
		"filter of a process":  {err: unix.EPERM, has: "seccomp=unconfined", restart: true},
		"filter of bubblewrap": {err: errors.New("bwrap: pivot_root: Operation not permitted"), has: "`pivot_root`", restart: true},
		"root without rights":  {err: &fork.Error{Step: fork.StepUser, Errno: unix.EPERM}, root: true, has: "SETFCAP", restart: true},
		"older calls only":     {err: unix.ENOSYS, has: "--sandbox-backend auto"},
		"unknown":              {has: "tether doctor"},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.err
			if err == nil {
				err = errors.New("unknown")
			}
			got := hostAdvice(err, func(name string) string { return row.settings[name] }, row.root)
			if !strings.Contains(got, row.has) || strings.Contains(got, "tries again") != row.again || strings.Contains(got, "restart tether") != row.restart {
				t.Error(got)
			}
		})
	}
}
