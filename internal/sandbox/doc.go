// Package sandbox turns what a client wants enforced into what a backend has
// to do. It is a compiler of four arrows:
//
//	intent ─ Bind ─▶ Policy ─ Compile ─▶ Plan ─ a backend ─▶ arguments ─ exec ─▶ process
//
// Intent is [wire.Sandbox]: portable, with symbolic names. It touches nothing.
//
// [Bind] gives the names a meaning on this machine. It only looks: through a
// [Host], which can tell what a path is but cannot change it. All looking
// happens here, once, so that everything behind it works on the same picture.
//
// A [Policy] is a set of rules over real paths. Deciding about a path and
// compiling are pure functions of it.
//
// A [Plan] is an ordered list of operations in the words of no backend, later
// ones on top of earlier ones. [Plan.Effect] evaluates it for a path, and its
// text is what tests and people read.
//
// Only a backend makes anything, placeholders included.
//
// # Promises
//
// What the rules deny is neither readable nor writable in the plan, what they
// let be read is not writable, and another deny never grants anything. A rule
// that cannot be kept is an error: [UnenforceableError], or [IntentError] when
// the intent makes no sense on this machine. Path rules speak of names: a
// second hard link of a file in an allowed place stays usable.
//
// # Real paths
//
// Mounts act on real paths, so rules do as well: each path of the intent is
// resolved when it is bound, as far as it exists. Somebody who can re-point a
// symbolic link that a restriction goes through could move the restriction
// elsewhere; such a restriction is refused.
package sandbox
