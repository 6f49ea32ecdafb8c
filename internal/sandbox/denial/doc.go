// Package denial decides whether the sandbox is the reason for the failure of a
// process, and which facts are known about that. It sees no process and no
// file: only the exit code, the newest output and the policy.
//
// A [Judge] (judge.go) follows the rule of the reference: it looks for a few phrases in
// the output. It can be wrong in both directions, and must stay so, because clients
// decide by it whether to ask a person.
//
// [Explain] (explain.go) adds more certain facts: the path or the kind of system call, and the
// rule. It reports nothing rather than a guess: a line of the output must name a path
// (paths.go) together with an error of the system, and the policy must give exactly that error
// for it. [Recent] (recent.go) keeps the lines that it looks at.
package denial
