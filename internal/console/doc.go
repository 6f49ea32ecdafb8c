// Package console lets browsers use a server: it serves the files of the console's page, and decides which browser may open a
// WebSocket. It knows nothing of the messages on that WebSocket: the page is a client like any other.
//
// A browser gets in with a code, which a client that is already in has asked for. The page exchanges the code for a cookie and a
// key. The two are bound to each other: other programs that listen on this machine get to see the cookie, because browsers send it to
// every port of a host; only the page's own origin can read the key.
//
// The package promises that a code works once and for a minute, that a browser has the rights of the client that has asked for its code
// and no more, that requests of other pages are refused, and that strangers can make nothing grow.
//
// Where a change belongs:
//
//   - console.go: the settings, and the codes that clients ask for
//   - access.go: codes and logins, their tables and limits
//   - serve.go: HTTP: which requests are refused, login, socket
//   - page.go: the files of the page and the headers that they get
//   - web: the files themselves
package console
