package sandbox

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

// maxText bounds code, and each environment value.
const maxText = 1 << 20

// Validate refuses what no backend can run, with words for the user.
func (s Spec) Validate() error {
	switch {
	case s.Code == "" && len(s.Command) == 0:
		return run.Errorf(run.Invalid, "nothing to run: give either code or a command")
	case s.Code != "" && len(s.Command) > 0:
		return run.Errorf(run.Invalid, "both code and a command are given: give exactly one of them")
	case s.Workspace == "" || !filepath.IsAbs(s.Workspace):
		return run.Errorf(run.Invalid, "the workspace %q is not an absolute path", s.Workspace)
	}
	if err := ValidateCode(s.Code); err != nil {
		return err
	}
	if err := ValidateCommand(s.Command); err != nil {
		return err
	}
	return ValidateEnv(s.Env)
}

// ValidateCode refuses Python source that no interpreter would take.
func ValidateCode(code string) error {
	switch {
	case len(code) > maxText:
		return run.Errorf(run.Invalid, "code has %d bytes; at most %d are allowed: put it in a file of the workspace", len(code), maxText)
	case !utf8.ValidString(code):
		return run.Errorf(run.Invalid, "code is not valid UTF-8 at byte %d", badByte(code))
	case strings.IndexByte(code, 0) >= 0:
		return run.Errorf(run.Invalid, "code has a NUL byte at byte %d: remove it", strings.IndexByte(code, 0))
	}
	return nil
}

// ValidateCommand refuses arguments that the system cannot pass on.
func ValidateCommand(argv []string) error {
	total := 0
	for i, a := range argv {
		total += len(a) + 1
		switch {
		case i == 0 && a == "":
			return run.Errorf(run.Invalid, "the command's first word is empty: it must name the program")
		case !utf8.ValidString(a):
			return run.Errorf(run.Invalid, "argument %d of the command is not valid UTF-8: %q", i, short(a))
		case strings.IndexByte(a, 0) >= 0:
			return run.Errorf(run.Invalid, "argument %d of the command has a NUL byte, which no program can receive: %q", i, short(a))
		}
	}
	if total > maxText {
		return run.Errorf(run.Invalid, "the command has %d bytes; at most %d are allowed: put long input in a file of the workspace", total, maxText)
	}
	return nil
}

// ValidateEnv refuses variables that the system cannot pass on.
func ValidateEnv(env []run.EnvVar) error {
	seen := make(map[string]bool, len(env))
	for _, e := range env {
		switch {
		case e.Name == "":
			return run.Errorf(run.Invalid, "an environment variable has no name")
		case !utf8.ValidString(e.Name) || strings.ContainsAny(e.Name, "=\x00"):
			return run.Errorf(run.Invalid, "the environment variable name %q must be valid UTF-8 without '=' and NUL", short(e.Name))
		case seen[e.Name]:
			return run.Errorf(run.Invalid, "the environment variable %s is given twice", short(e.Name))
		case !utf8.ValidString(e.Value):
			return run.Errorf(run.Invalid, "the value of the environment variable %s is not valid UTF-8", short(e.Name))
		case strings.IndexByte(e.Value, 0) >= 0:
			return run.Errorf(run.Invalid, "the value of the environment variable %s has a NUL byte: remove it", short(e.Name))
		case len(e.Value) > maxText:
			return run.Errorf(run.Invalid, "the value of the environment variable %s has %d bytes; at most %d are allowed", short(e.Name), len(e.Value), maxText)
		}
		seen[e.Name] = true
	}
	return nil
}

// badByte gives the place of the first byte that is not UTF-8.
func badByte(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// short bounds what an error quotes.
func short(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "…"
}
