//go:build split && !mcp && !fleet

package main

import (
	"errors"
	"os"
)

func printPackageFiles(*os.File, string) error {
	return errors.New("this program has no files of packages")
}
