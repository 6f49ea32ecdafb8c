//go:build !linux

package service

import "time"

// A Manager is a service manager that wants messages, which only Linux has.
type Manager struct{}

// Find returns nil: this system has no such manager.
func Find() *Manager { return nil }

// Interval returns 0.
func (*Manager) Interval() time.Duration { return 0 }

// Ready does nothing.
func (*Manager) Ready() {}

// Alive does nothing.
func (*Manager) Alive() {}

// Stopping does nothing.
func (*Manager) Stopping() {}
