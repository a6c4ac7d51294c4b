// Package cgroup bounds what the processes of an execution use together, by
// control groups of version 1 or 2.
package cgroup
