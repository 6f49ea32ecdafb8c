// Package ports forwards TCP connections of this machine to ports that the executor can reach, through a [client.Client]. Forwarded connections survive the loss
// of the client's connection: both ends continue where the other one is.
//
//	l, err := net.Listen("tcp", "127.0.0.1:8080")
//	if err != nil {
//		return err
//	}
//	return ports.Of(c).Serve(ctx, l, ports.Target{Port: 80}, nil)
package ports
