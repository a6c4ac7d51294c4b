package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirhq/weir/helpers"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// hostFiles is what a sandbox sees of the system, found once.
type hostFiles struct {
	args   []string // binds and links
	python string   // path inside of the sandbox; "" when there is none
}

// codePath is where Python code lies in a sandbox: what tracebacks show.
const codePath = "/weir/main.py"

// helpersPath is the folder of what programs log with in a sandbox.
const helpersPath = "/weir/lib"

func findHostFiles(python string) hostFiles {
	h := hostFiles{args: []string{"--ro-bind", "/usr", "/usr"}}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(dir); err == nil {
			h.args = append(h.args, "--symlink", target, dir)
		} else if info, err := os.Stat(dir); err == nil && info.IsDir() {
			h.args = append(h.args, "--ro-bind", dir, dir)
		}
	}
	h.args = append(h.args, "--dir", "/etc")
	for _, file := range []string{"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/localtime", "/etc/mime.types"} {
		h.args = append(h.args, "--ro-bind-try", file, file)
	}
	for _, p := range []string{python, "/usr/bin/python3", "/usr/local/bin/python3"} {
		if p == "" {
			continue
		}
		if target, err := filepath.EvalSymlinks(p); err == nil && strings.HasPrefix(target, "/usr/") {
			h.python = p
			break
		}
	}
	return h
}

// command gives the words to execute in the sandbox.
func (h hostFiles) command(spec sandbox.Spec) ([]string, error) {
	if spec.Code == "" {
		return spec.Command, nil
	}
	if h.python == "" {
		return nil, run.Errorf(run.Unavailable, "no python3 for Python code: neither /usr/bin/python3 nor /usr/local/bin/python3 exists; install it, or run a command instead")
	}
	return []string{h.python, codePath}, nil
}

// shown is the command as users see it.
func shown(spec sandbox.Spec, command []string) []string {
	if spec.Code == "" {
		return spec.Command
	}
	return []string{"python3", filepath.Base(command[len(command)-1])}
}

const (
	nobody = "nobody:x:65534:65534:nobody:/:/bin/false\n"
	groups = "weir:x:1000:\nnogroup:x:65534:\n"
	mib    = 1 << 20
)

// arguments are bubblewrap's options; fd gives the descriptor of what is passed
// to it. They travel through a descriptor, because every user of the machine
// can read a command line, and the environment may hold secrets.
func (b *Bubblewrap) arguments(spec sandbox.Spec, plain []run.EnvVar, fd map[string]int) ([]byte, error) {
	at := func(name string) string { return strconv.Itoa(fd[name]) }
	args := []string{
		"--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session",
		"--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--hostname", "weir",
	}
	args = append(args, b.host.args...)
	switch spec.Network {
	case "", sandbox.NetworkNone:
	case sandbox.NetworkHost:
		args = append(args, "--share-net")
		for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"} {
			args = append(args, "--ro-bind-try", file, file)
		}
	default:
		return nil, run.Errorf(run.Invalid, "the local backend has no network %q: it knows %s and %s", spec.Network, sandbox.NetworkNone, sandbox.NetworkHost)
	}
	memory := spec.Limits.MemoryMiB
	shm, tmp := int64(256), int64(1024)
	if memory > 0 {
		shm, tmp = max(memory/4, 1), max(memory/2, 1)
	}
	if spec.Limits.DiskMiB > 0 {
		tmp = min(tmp, spec.Limits.DiskMiB)
	}
	args = append(args,
		"--ro-bind-data", at("passwd"), "/etc/passwd", "--ro-bind-data", at("group"), "/etc/group",
		"--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys",
		"--dev", "/dev")
	for _, device := range devices(spec) {
		args = append(args, "--dev-bind", device, device)
	}
	args = append(args,
		"--size", strconv.FormatInt(shm*mib, 10), "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", strconv.FormatInt(tmp*mib, 10), "--tmpfs", "/tmp",
	)
	args = append(args, places(spec)...)
	args = append(args,
		// Read-only as everything on the root, without a mount of their own.
		"--perms", "0444", "--file", at("python"), helpersPath+"/"+helpers.PythonName,
		"--perms", "0555", "--file", at("shell"), helpersPath+"/"+helpers.ShellName)
	if spec.Code != "" {
		args = append(args, "--ro-bind-data", at("code"), codePath)
	}
	args = append(args, "--chdir", inside(spec), "--remount-ro", "/", "--clearenv")
	for _, e := range plain {
		args = append(args, "--setenv", e.Name, e.Value)
	}
	if _, ok := fd["seccomp"]; ok {
		args = append(args, "--seccomp", at("seccomp"))
	}
	args = append(args, "--json-status-fd", at("status"))
	var buf bytes.Buffer
	for _, a := range args {
		buf.WriteString(a)
		buf.WriteByte(0)
	}
	return buf.Bytes(), nil
}

// sandboxEnv is the whole environment of a command.
func sandboxEnv(spec sandbox.Spec) []run.EnvVar {
	return withHelpers(merge([]run.EnvVar{
		{Name: "PATH", Value: pathFirst(spec, sandboxPath)},
		{Name: "HOME", Value: homeInside(spec)},
		{Name: "USER", Value: "weir"},
		{Name: "LANG", Value: "C.UTF-8"},
		{Name: "TMPDIR", Value: "/tmp"},
		{Name: "PYTHONUNBUFFERED", Value: "1"},
		{Name: "PYTHONDONTWRITEBYTECODE", Value: "1"},
		{Name: labelRun, Value: string(spec.Run)},
		{Name: labelExecution, Value: string(spec.Execution)},
	}, spec.Env), inside(spec), helpersPath)
}
