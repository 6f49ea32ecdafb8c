package server

import "io"

// AppendFile is appendFile, for tests.
var AppendFile = appendFile

// MaxWhole is maxWhole, and FirstPart firstPart, for tests.
const MaxWhole = maxWhole

var FirstPart = firstPart

// Refusal is refusal, for tests.
var Refusal = refusal

// GrowingFile returns a growingFile, for tests.
func GrowingFile(file io.Reader, left int64) io.Reader { return &growingFile{file, left} }
