// Package explain says in words and as data what a sandbox lets a command do: for `tether sandbox explain`, and for
// descriptions of running commands (tether/process/describe).
package explain
