// Package sandbox turns the sandbox that a client asks for into the
// operations that a backend carries out. It is a compiler of four steps:
//
//	intent ─ Bind ─▶ Policy ─ Compile ─▶ Plan ─ a backend ─▶ arguments ─ exec ─▶ process
//
// Intent is [wire.Sandbox]: portable, with symbolic names. It touches nothing.
//
// [Bind] gives the names a meaning on this machine. It only looks, through a
// [Host], which can describe a path but cannot change it. All looking happens
// here, once, so that every later step works on the same state.
//
// A [Policy] is a set of rules over real paths. Deciding about a path and
// compiling are pure functions of it.
//
// A [Plan] is an ordered list of operations that names no backend; later
// operations are on top of earlier ones. [Plan.Effect] evaluates it for a
// path, and its text is what tests compare and people read.
//
// Only a backend changes the machine; that includes making placeholders.
//
// # Promises
//
// A denied path is neither readable nor writable in the plan, a readable path
// is not writable, and another deny never grants anything. A rule that cannot
// be enforced is an error: [UnenforceableError], or [IntentError] if the
// intent makes no sense on this machine. Path rules are about names: a second
// hard link of a file in an allowed place stays usable.
//
// # Real paths
//
// Mounts act on real paths, so rules do as well: each path of the intent is
// resolved when it is bound, as far as it exists. If a restriction goes
// through a symbolic link that a command could change, the command could
// redirect the restriction; such a restriction is refused.
//
// # Where a change belongs
//
// bind.go: the order of the steps, and the checks of links. entry.go,
// glob.go, globmatch.go: entries and patterns of the intent. protect.go,
// usersockets.go: the rules that every sandbox gets. rule.go, policy.go,
// rulebook.go: decisions about a path, here and in the file helper.
// compile.go, plan.go: the plan. host*.go: looking at the machine. errors.go:
// the errors.
package sandbox
