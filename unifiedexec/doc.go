// Package unifiedexec is what a model runs commands with: two tools, exec_command and
// write_stdin, over any executor.
//
// A [Manager] has the sessions of one model. [Manager.ExecCommand] starts a command and
// returns its output when it ends or, as a session with an id, when the time to wait is
// over. [Manager.WriteStdin] gives the session input, or looks what it has printed since.
// Each byte of output is in one result. [Result.Text] is what the model gets.
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
// Commands run in the sandbox of their environment. It travels as a portable intent: the
// executor makes it true on its own system, or refuses the command. The executor also
// says whether the sandbox was in the way of a command that failed; nothing here depends
// on the system that this package runs on.
//
// A denied command, whenever it ends, leads to a question if the [Policy] has one. If the
// [Approver] says yes the command runs a second time, from its beginning, without
// sandbox; if not, the model gets the output of the first time and the answer. What may
// happen to a command is one table, see the type transition.
//
// An approval for the session makes the same command run without sandbox at once. A
// policy that hides files is never left: what ran without sandbox would see them.
//
// # Limits
//
// Of the output between two results the first and the last 512 KiB are kept. There are
// 64 sessions; the 65th closes one that has ended or was not used for long, and the
// result says which. Up to 50 ms after its exit the output of a command may go on;
// background processes that hold it open longer are ended.
package unifiedexec
