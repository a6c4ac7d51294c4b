package around

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// maxLinks bounds how many links are followed, as the system does.
const maxLinks = 40

// python brings the Python that the user would get: the active environment, that
// of the program itself, or the first python3 of PATH where the system's own
// is another one, and without an environment the user's own packages.
func (f *finder) python(q Request) {
	active := false
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		dir := q.Getenv(name)
		if dir == "" {
			continue
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
			f.found.Notes = append(f.found.Notes, name+" is "+dir+", which is no folder here: it is left out")
			continue
		}
		if own := sandboxHas(dir); own != "" {
			f.found.Notes = append(f.found.Notes, name+" is "+dir+", but the sandbox has "+own+": it is left out")
			continue
		}
		dir = filepath.Clean(dir)
		f.environment(dir)
		f.found.Path = append(f.found.Path, filepath.Join(dir, "bin"))
		f.found.Env = append(f.found.Env, run.EnvVar{Name: name, Value: dir})
		active = true
	}
	own := OwnEnvironment(f.found.Folder, q.Program)
	if own != "" {
		f.environment(own)
	}
	if active {
		return
	}
	if own == "" {
		f.userSite(q)
	}
	for _, dir := range filepath.SplitList(q.Getenv("PATH")) {
		file := filepath.Join(dir, "python3")
		info, err := os.Stat(file)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 || !filepath.IsAbs(dir) {
			continue
		}
		if target, err := filepath.EvalSymlinks(file); err == nil && !system(target) {
			f.interpreter(file)
			f.found.Path = append(f.found.Path, filepath.Clean(dir))
		}
		return
	}
}

// OwnEnvironment is the one of Python that a program belongs to which is named by
// its path; "" for others.
func OwnEnvironment(folder, program string) string {
	if !strings.ContainsRune(program, filepath.Separator) {
		return ""
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(folder, program)
	}
	dir := filepath.Dir(filepath.Dir(program))
	if _, err := os.Stat(filepath.Join(dir, "pyvenv.cfg")); err != nil {
		return ""
	}
	return dir
}

// userSite brings what pip install --user has installed, and tells Python where it
// is: HOME is another folder in a run. An environment does not look there.
func (f *finder) userSite(q Request) {
	if q.Getenv("PYTHONNOUSERSITE") != "" {
		return
	}
	base := q.Getenv("PYTHONUSERBASE")
	if base == "" && f.home != "" {
		base = filepath.Join(f.home, ".local")
	}
	if !filepath.IsAbs(base) {
		return
	}
	found, _ := filepath.Glob(filepath.Join(quoteGlob.Replace(filepath.Clean(base)), "lib", "python3*", "site-packages")) // the pattern is a good one
	for _, dir := range found {
		f.add(dir)
	}
	if len(found) > 0 {
		f.found.Env = append(f.found.Env, run.EnvVar{Name: "PYTHONUSERBASE", Value: filepath.Clean(base)})
	}
}

// quoteGlob keeps a folder's name from being a pattern.
var quoteGlob = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

// environment brings a folder of Python packages, and the interpreter that it
// is made for.
func (f *finder) environment(dir string) {
	f.add(dir)
	for _, name := range []string{"python3", "python"} {
		file := filepath.Join(dir, "bin", name)
		if _, err := os.Stat(file); err == nil {
			f.interpreter(file)
		}
	}
	if home := homeOf(filepath.Join(dir, "pyvenv.cfg")); filepath.IsAbs(home) {
		for _, name := range []string{"python3", "python"} {
			if _, err := os.Stat(filepath.Join(home, name)); err == nil {
				f.interpreter(filepath.Join(home, name))
				break
			}
		}
	}
}

// homeOf reads where an environment's interpreter is.
func homeOf(config string) string {
	file, err := os.Open(config)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // only read
	for s := bufio.NewScanner(file); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), "="); ok && strings.TrimSpace(key) == "home" {
			return filepath.Clean(strings.TrimSpace(value))
		}
	}
	return ""
}

// interpreter brings a Python with its library, and the links that lead to it.
func (f *finder) interpreter(path string) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if err != nil {
			return
		}
		if info.Mode()&os.ModeSymlink == 0 {
			break
		}
		target, err := os.Readlink(path)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		if filepath.Dir(target) != filepath.Dir(path) && !f.shown(filepath.Dir(path)) {
			f.add(filepath.Dir(path))
		}
		path = filepath.Clean(target)
	}
	if target, err := filepath.EvalSymlinks(path); err != nil || system(target) {
		return
	}
	prefix := filepath.Dir(filepath.Dir(path))
	if prefix == "/" || Holds(prefix, f.home) || prefix == filepath.Join(f.home, ".local") {
		// Other things of the user's are there, too.
		f.add(filepath.Dir(path))
		f.add(filepath.Join(prefix, "lib"))
		return
	}
	f.add(prefix)
}
