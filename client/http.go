package client

import "github.com/tetherexec/tether/wire"

// bodies are the streamed bodies of HTTP responses.
type bodies struct{}

func (c *Client) bodyDelta(*wire.HTTPBodyDelta) error { return nil }
func (c *Client) failBodies(error)                    {}
