// Package schedule decides when the requests of one connection run. It knows keys and paths, but neither JSON nor
// connections.
package schedule
