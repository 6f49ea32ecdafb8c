//go:build !unix

package shellsnap

import "errors"

func makeFifo(string) error { return errors.ErrUnsupported }

func exists(string) error { return errors.ErrUnsupported }
