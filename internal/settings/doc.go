// Package settings reads the configuration file of tether: settings of its servers, under the names of their flags, and the
// servers that clients can name. It also owns the file of the hosts that the user has allowed to commands for good.
//
// It promises that a file is taken as a whole or not at all: an unknown key, a value of a wrong type, or a file that other users
// can change is an error. It knows neither commands nor flags: their owner applies the settings.
//
// Where a change belongs: settings.go has the form of the file, find.go says where it is and which files are trusted, nearest.go
// finds the name that a user has probably meant. hosts.go has the file of hosts.
package settings
