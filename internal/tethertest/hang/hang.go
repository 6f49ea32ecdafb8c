// Package hang says when a test that waits for something hangs. It imports nothing of tether, so that the tests of every package can use
// it.
package hang

import "time"

// Limit is how long a test waits for something that must happen, before it fails. Only a test that fails waits so long: the limit is many
// times what anything takes on a machine whose processors are kept busy by other programs.
const Limit = 5 * time.Minute
