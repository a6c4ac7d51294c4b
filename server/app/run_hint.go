package app

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhq/weir/server/cli"
)

// hint says what a person at the command line can do about a failure, where that
// is known; "" where it is not, and where the error says it itself.
func (e *embedded) hint(r *cli.Run) string {
	_, missing, noModule := strings.Cut(r.Error, "ModuleNotFoundError: No module named ")
	switch {
	case noModule:
		module, _, _ := strings.Cut(missing, "\n")
		return e.missingModule(module)
	case strings.Contains(r.Error, "command not found: ") && len(e.input.Command) > 0:
		return e.missingProgram(e.input.Command[0])
	}
	return ""
}

// missingModule is for a program that did not find its packages.
func (e *embedded) missingModule(module string) string {
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if active := e.getenv(name); active != "" {
			return "the active environment " + active + " has no module " + module + "; install it there"
		}
	}
	for _, name := range []string{".venv", "venv", "env"} {
		if _, err := os.Stat(filepath.Join(e.input.Place.Folder, name, "pyvenv.cfg")); err == nil {
			return "no environment is active, but there is one here: source " + name + "/bin/activate, and run it again"
		}
	}
	return "the python3 of this run has no module " + module + "; activate the environment that has it (source .venv/bin/activate, conda activate NAME) and run it again"
}

// missingProgram is for one that this user has and the sandbox does not show.
func (e *embedded) missingProgram(name string) string {
	dirs := filepath.SplitList(e.getenv("PATH"))
	if strings.ContainsRune(name, filepath.Separator) {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			if file, err = filepath.Abs(file); err == nil {
				return "it is at " + file + ", which the sandbox does not show: --mount " + cli.ShellWords([]string{filepath.Dir(file)}) + " -- " + cli.ShellWords([]string{file})
			}
		}
	}
	return ""
}
