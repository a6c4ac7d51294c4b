// Package helpers holds what programs in a sandbox log with: a Python module
// and a shell command. They are plain files without dependencies, to be copied.
package helpers

import _ "embed"

// The names that the files must have where programs find them.
const (
	PythonName = "weir.py"
	ShellName  = "weir-log"
)

var (
	// Python is the module weir, for Python 3.8 and newer.
	//go:embed weir.py
	Python string
	// Shell is the command weir-log, for any POSIX shell.
	//go:embed weir-log
	Shell string
)
