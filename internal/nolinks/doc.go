// Package nolinks opens paths through which no symbolic link leads. It does so in one
// step where the system can (openat2), so that a link that appears meanwhile leads
// nobody astray, and else name by name, which is as safe but slower.
package nolinks
