package server

import "io"

// AppendFile is appendFile, for tests.
var AppendFile = appendFile

// MaxWhole is maxWhole, and FirstPart firstPart, for tests.
const MaxWhole = maxWhole

var FirstPart = firstPart

// Refusal is refusal, for tests.
var Refusal = refusal

// MoreThanSaid returns a moreThanSaid, for tests.
func MoreThanSaid(file io.Reader, left int64) io.Reader { return &moreThanSaid{file, left} }
