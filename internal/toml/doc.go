// Package toml reads and writes TOML documents whose keys keep their order.
//
// It promises that reading costs memory in proportion to the document: a document that is nested too deeply, or has too many
// keys or values, is refused before its tables are made.
//
// Where a change belongs: parse.go has the rules about keys that occur twice, scalar.go those about numbers and dates, tree.go
// the tables and the limits, write.go the text of a table. The library's parser splits the document.
package toml
