// Package client runs processes on another machine and keeps them through network
// failures. Package client/files has the files of that machine, and client/web makes HTTP
// requests from there; both use a [Client] of this package.
//
// A [Client] is one session with a server of the exec-server protocol: tether, or
// the Codex CLI's own. The session survives its connection. When the connection is lost,
// the client connects again by itself, catches up with the output of each process, and
// repeats the requests that are safe to repeat; calls made in the meantime wait. The
// program notices only a delay.
//
//	c, err := client.Dial(ctx, "ws://127.0.0.1:7777", client.Options{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	p, err := c.Start(ctx, client.Command{Argv: []string{"make", "test"}, Dir: "/srv/project"})
//	if err != nil {
//		return err
//	}
//	exit, err := p.CopyOutput(ctx, os.Stdout, os.Stderr)
//
// [Dial] tries once, unless [Options.Wait] gives a starting server some time.
//
// # What is repeated
//
// Requests that change nothing are repeated after a lost connection. Input for a
// process is repeated with the same id, and the server drops input that it has already
// received. If the answer to a start was lost, the client asks for the process, and sends
// the start again if it never arrived. Terminate is repeated. A change to a file, or an
// HTTP request, is sent again if it surely did not leave; if it may have been carried
// out, the error is [ErrAmbiguous].
//
// # When the session is lost
//
// If the server does not come back in time or does not know the session any more,
// the client has failed: each call, and each process, returns the same error, which
// is [ErrSessionLost]. [Lazy] makes a new client then. If the server did not come back in
// time, the error has the reason of the last attempt. If another client has
// resumed the session, the error is [ErrTakenOver], and this client does not try to get
// the session back. If a tether server is shut down, it tells its clients, which fail at
// once with [ErrServerStopped].
//
// # Servers without tether's additions
//
// With the reference server the client cannot resize terminals, cannot end the input of a
// command, and has only the interrupt signal. That server
// keeps the newest 1 MiB of output, whether it was received or not. For a reader that
// pauses the client therefore keeps up to 64 MiB of each process, 256 MiB in all; more
// than that, and more than 1 MiB while there is no connection, is a [Gap]. It does not
// stop reading the connection instead: that would hold up all other processes and calls.
// [Client.Has] reports which additions a server has.
//
// # Where a change belongs
//
//   - A connection: dial.go and command.go make it, link.go is one connection, liveness.go
//     detects that it is dead, incoming.go processes notifications and requests of the server.
//   - The session: first_connection.go opens it, state.go has the state, recover.go resumes it after a
//     lost connection, lazy.go opens another one when it is lost for good.
//   - Requests: call.go repeats them on the next connection.
//   - Errors: errors.go has the errors to look for; refusal.go the answers by which a server
//     refuses, and all texts of servers that decide something; unreachable.go the reasons
//     why there is no connection.
//   - Processes: start.go, process.go, processes.go (the table), input.go, network.go,
//     wait.go, streams.go, process_state.go; remote.go and observe.go for processes of other
//     sessions.
//   - Output: sequence.go brings events into order, refill.go asks for missing ones, log.go
//     keeps them, subscription.go delivers and acknowledges them, backpressure.go slows the
//     server down for a slow reader.
//   - Other methods of the protocol: a package of its own, on top of [Client.Through],
//     [Link] and [Extension].
package client
