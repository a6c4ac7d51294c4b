// Package starter starts processes that are to die with the server, from one
// thread that lives as long as it does.
package starter
