package server

import "io"

// AppendFile is appendFile, for tests.
var AppendFile = appendFile

// Refusal is refusal, for tests.
var Refusal = refusal

// MoreThanSaid returns a moreThanSaid, for tests.
func MoreThanSaid(file io.Reader, left int64) io.Reader { return &moreThanSaid{file, left} }
