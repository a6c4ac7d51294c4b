package app

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhq/weir/server/around"
	"github.com/weirhq/weir/server/cli"
)

// hint says what a person at the command line can do about a failure, where that
// is known; "" where it is not, and where the error says it itself.
func (e *embedded) hint(r *cli.Run) string {
	_, missing, noModule := strings.Cut(r.Error, "ModuleNotFoundError: No module named ")
	switch {
	case noModule && len(e.input.Command) > 0:
		module, _, _ := strings.Cut(missing, "\n")
		return e.missingModule(module)
	case strings.Contains(r.Error, "command not found: ") && len(e.input.Command) > 0:
		return e.missingProgram(e.input.Command[0])
	}
	return ""
}

// missingModule is for a program that did not find its packages: it says where
// this run looked for them.
func (e *embedded) missingModule(module string) string {
	folder := e.input.Place.Folder
	if program := e.input.Command[0]; strings.ContainsRune(program, filepath.Separator) {
		if dir := around.OwnEnvironment(folder, program); dir != "" {
			return "the environment " + dir + ", which " + program + " belongs to, has no module " + module + "; install it there"
		}
		if strings.HasPrefix(filepath.Base(program), "python") {
			return program + " is no environment's Python, and has no module " + module + "; say python3 for that of the active environment, or the path of one in an environment"
		}
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		for _, v := range e.input.Env {
			if v.Name == name {
				return "the active environment " + v.Value + " has no module " + module + "; install it there"
			}
		}
	}
	if dir := environmentNear(folder, e.getenv("HOME")); dir != "" {
		return "no environment is active, but there is one here: source " + cli.ShellWords([]string{dir + "/bin/activate"}) + ", and run it again"
	}
	return "the python3 of this run has no module " + module + ", no environment is active, and there is no .venv, venv or env in or above " + folder +
		": activate the environment that has it (source DIR/bin/activate, conda activate NAME), or make one (python3 -m venv .venv), and run it again"
}

// environmentNear looks for an environment of Python in a folder and those above
// it, up to the user's home; "" where there is none. It is relative to the folder.
func environmentNear(folder, home string) string {
	for dir := folder; ; dir = filepath.Dir(dir) {
		for _, name := range []string{".venv", "venv", "env"} {
			at := filepath.Join(dir, name)
			if _, err := os.Stat(filepath.Join(at, "pyvenv.cfg")); err != nil {
				continue
			}
			if rel, err := filepath.Rel(folder, at); err == nil {
				return rel
			}
		}
		if dir == filepath.Dir(dir) || around.Holds(dir, home) {
			return ""
		}
	}
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
			if around.Holds("/usr", file) {
				return "it is at " + file + ", in a folder that the PATH of this run leaves out"
			}
			if file, err = filepath.Abs(file); err == nil {
				return "it is at " + file + ", which the sandbox does not show: --mount " + cli.ShellWords([]string{filepath.Dir(file)}) + " -- " + cli.ShellWords([]string{file})
			}
		}
	}
	return ""
}
