package sandbox

// Alternatives returns the components of each alternative of the glob, for backends that translate it to another
// language. Each matches a path, and as a denial everything below it.
func (g Glob) Alternatives() (list [][]string) {
	for _, p := range g {
		list = append(list, p.parts)
	}
	return list
}
