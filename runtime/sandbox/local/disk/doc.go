// Package disk measures what executions keep on the disk, while they work and
// though they may try to hide it.
package disk
