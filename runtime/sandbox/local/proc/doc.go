// Package proc tells what processes the machine has and what they do, and holds
// on to them so that a signal reaches no other.
package proc
