// Package unifiedexec has the two tools by which a model runs commands, exec_command and
// write_stdin, over any executor.
//
// A [Manager] has the sessions of one model. [Manager.ExecCommand] starts a command and waits
// for its end. If the command has not ended when the time to wait is over, it goes on as a
// session with an id. [Manager.WriteStdin] sends input to a session, and returns its output
// since the last result. Each byte of output is in one result. [Result.Text] is the text for
// the model.
//
//	e, err := local.Start(ctx, local.Options{}) // or Remote, for another machine
//	if err != nil {
//		return err
//	}
//	defer e.Close()
//	m, err := unifiedexec.New(unifiedexec.Config{
//		Environments: []unifiedexec.Environment{{
//			ID: "local", Executor: e, Local: true, Cwd: "/srv/project", Sandbox: unifiedexec.WorkspaceWrite(),
//		}},
//		Policy:   unifiedexec.Policy{Mode: unifiedexec.Granular, SandboxApproval: true, Rules: true},
//		Approver: askTheUser,
//	})
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	args, err := unifiedexec.ParseExecArgs(call.Arguments)
//	if err == nil {
//		result, err = m.ExecCommand(ctx, args)
//	}
//
// # Sandbox and approvals
//
// Commands run in the sandbox of their environment. The executor gets it as a portable intent,
// and enforces it on its own system or refuses the command. The executor also reports whether
// the sandbox caused the failure of a command. Nothing here depends on the system that this
// package runs on.
//
// If the sandbox has denied a command something, the user is asked, if the [Policy] allows that
// question. If the [Approver] says yes, the command runs a second time, from its beginning,
// without the sandbox. Otherwise the model gets the output of the first time and the refusal.
// One table has all that can happen to a command: the variable transitions.
//
// After an approval for the session, the same command runs without the sandbox at once. If the
// policy hides files, no command runs without the sandbox, because it would see them.
//
// # Limits
//
// Of the output between two results the first and the last 512 KiB are kept. There are up to
// 64 sessions; the next one closes a session that has ended or was not used for the longest
// time, and the result says which. After its exit, the output of a command may go on for up to
// 50 ms; background processes that hold it open longer are ended.
//
// # Where a change belongs
//
//   - The tools: args.go has the arguments, exec.go the calls, result.go and text.go the text for
//     the model, errors.go the errors, events.go the events for an observer.
//   - A session: manager.go has the table, prune.go closes sessions above the limit, session.go
//     takes one command through its states, decide.go is the table of states, attempt.go is one
//     process, buffer.go its output, pausable_clock.go stops the clock during questions.
//   - Rights: approve.go has policy and remembered approvals, sandbox.go and network.go the
//     sandbox, script.go and launcher.go the parts of a command and the rules for them.
//   - The executor: executor.go, with shell.go and environ.go for what a command is started with.
package unifiedexec
