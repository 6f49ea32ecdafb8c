// Package denial tells whether the sandbox is the reason for the failure of a
// process, and what is known about it. It sees no process and no file: only the
// exit code, the newest output and the policy.
//
// A [Judge] (judge.go) follows the rule that clients know: it looks for a few phrases in
// the output. It errs in both directions, and must, because clients decide by it
// whether to ask a person.
//
// [Explain] (explain.go) adds what can be told with more certainty: which path or which kind
// of system call it was, and by which rule. It says nothing rather than guess: a line of the
// output names an absolute path (paths.go) together with an error of the system, and the
// policy gives exactly that error for it. [Recent] (recent.go) keeps the lines that it looks at.
package denial
