// Package at opens paths that lead through no symbolic link. It uses openat2 where
// the system has it, and opens one name after the other elsewhere, which is as safe but
// slower: a link that appears meanwhile is never followed.
package at
