package seccomp

// oldNumbers are calls that newer architectures do not have.
var oldNumbers = map[string]uint32{}
