//go:build !linux

package statedir

import "errors"

// Desert is for durable servers, which only Linux has.
func Desert(string) error { return errors.ErrUnsupported }
