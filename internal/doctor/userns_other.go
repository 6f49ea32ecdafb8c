//go:build !linux

package doctor

import (
	"context"
	"errors"
)

func tryUserNamespace(context.Context, string, []string) error {
	return errors.New("not on this system")
}
