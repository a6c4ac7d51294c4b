package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/helpers"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox/local/seccomp"
)

// childFiles are the ends that bubblewrap gets.
type childFiles struct {
	argv           []string
	extra          []*os.File
	stdout, stderr *os.File
	shared         *os.File // is the backend's to close
}

func (f *childFiles) close() {
	if f == nil {
		return
	}
	for _, x := range append(f.extra, f.stdout, f.stderr) {
		if x != nil && x != f.shared {
			_ = x.Close()
		}
	}
	f.extra, f.stdout, f.stderr = nil, nil, nil
}

// open makes the pipes and the files in memory that a start needs.
func (p *bwrapProcess) open(command []string) (*childFiles, error) {
	f := &childFiles{}
	env := sandboxEnv(p.spec)
	if err := checkStrings(env, command); err != nil {
		return f, err
	}
	plain, first, err := p.firstProgram(env, command)
	if err != nil {
		return f, err
	}
	pipe := func(ours **os.File, read bool) *os.File {
		r, w, e := os.Pipe()
		if e != nil {
			err = errors.Join(err, fmt.Errorf("making a pipe: %w", e))
			return nil
		}
		if read {
			*ours = r
			return w
		}
		*ours = w
		return r
	}
	data := func(name string, b []byte) *os.File {
		m, e := memfd(name, b)
		err = errors.Join(err, e)
		return m
	}
	f.stdout, f.stderr = pipe(&p.stdout, true), pipe(&p.stderr, true)
	// The order gives the descriptors: the first is 3.
	fd := map[string]int{"args": 3, "status": 4, "passwd": 7, "group": 8}
	f.extra = []*os.File{
		nil, pipe(&p.status, true), pipe(&p.release, false), pipe(&p.verdict, true),
		data("passwd", passwd(p.spec)), data("group", []byte(groups)),
	}
	if p.stub != nil {
		f.shared = p.stub
		f.extra = append(f.extra, f.shared) // 9
	}
	add := func(name string, b []byte) {
		fd[name] = 3 + len(f.extra)
		f.extra = append(f.extra, data(name, b))
	}
	add("python", []byte(helpers.Python))
	add("shell", []byte(helpers.Shell))
	if p.spec.Code != "" {
		add("code", []byte(p.spec.Code))
	}
	if filter := seccomp.Filter(); len(filter) > 0 {
		add("seccomp", filter)
	}
	args, e := p.backend.arguments(p.spec, plain, fd)
	if e != nil {
		return f, e
	}
	f.extra[0] = data("args", args)
	if err != nil {
		return f, err
	}
	if p.backend.users.root {
		// A program may open /dev/stdout, which asks for the right to the pipe.
		err = errors.Join(f.stdout.Chown(p.user, p.user), f.stderr.Chown(p.user, p.user))
	}
	f.argv = append(append([]string{"--args", strconv.Itoa(fd["args"]), "--"}, first...), command...)
	return f, errors.Join(err, checkWords(len(command), bytes.Count(args, []byte{0})+len(f.argv)))
}

// firstProgram gives the words before the command, of the program that becomes
// it once it is let go, and the variables that bubblewrap sets for it.
func (p *bwrapProcess) firstProgram(env []run.EnvVar, command []string) (plain []run.EnvVar, words []string, err error) {
	own := func(e run.EnvVar) bool { return e.Name == "PWD" } // bubblewrap sets its own
	if stub := p.backend.stub.Load(); stub != nil && !slices.ContainsFunc(env, own) {
		p.stub = stub
		return env, slices.Concat([]string{stubPath}, candidates(command[0], env), []string{""}), nil
	}
	plain, odd := oddEnv(env)
	have := p.backend.cgroups
	script := ulimits(p.spec.Limits, !have.Has("memory"), !have.Has("pids")) + stub + execute(odd) + `"$@"`
	if len(script) >= maxEnvString {
		return nil, nil, run.Errorf(run.Invalid, "the environment variables whose names a shell does not know have %d bytes together; at most %d fit", len(script), maxEnvString)
	}
	return plain, []string{"/bin/sh", "-c", script, "weir"}, nil
}

// memfd gives an unnamed file that holds data, to be read from its start.
func memfd(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("filling a file in memory: %w", err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("rewinding a file in memory: %w", err)
	}
	return f, nil
}
