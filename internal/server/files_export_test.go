package server

// AppendFile is appendFile, for tests.
var AppendFile = appendFile
