//go:build !unix

package main

import "os"

var harmlessSignals map[os.Signal]string

func followSize(*os.File, func(rows, cols uint16)) (stop func()) { return func() {} }
