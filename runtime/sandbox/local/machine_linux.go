package local

import (
	"bufio"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weirhq/weir/runtime/sandbox"
)

// machine is what the remedies depend on.
type machine struct {
	files     fs.FS    // the root folder, without a leading slash
	root      bool     // the server's user may do all
	families  []string // of the distribution: ID, then ID_LIKE of os-release
	version   string   // VERSION_ID
	container bool
}

func newMachine(files fs.FS, root bool) machine {
	m := machine{files: files, root: root}
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			continue
		}
		words := map[string]string{}
		for s := bufio.NewScanner(strings.NewReader(string(data))); s.Scan(); {
			if k, v, ok := strings.Cut(s.Text(), "="); ok {
				words[k] = strings.Trim(v, `"'`)
			}
		}
		m.families = append(strings.Fields(words["ID"]), strings.Fields(words["ID_LIKE"])...)
		m.version = words["VERSION_ID"]
		break
	}
	for _, name := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(files, name); err == nil {
			m.container = true
		}
	}
	for _, name := range []string{"proc/1/cgroup", "proc/self/cgroup"} {
		if data, err := fs.ReadFile(files, name); err == nil {
			for _, word := range []string{"/docker", "/kubepods", "/lxc", "/libpod"} {
				m.container = m.container || strings.Contains(string(data), word)
			}
		}
	}
	return m
}

// setting reads a sysctl; "" is one that this kernel does not have.
func (m machine) setting(name string) string {
	data, err := fs.ReadFile(m.files, "proc/sys/"+strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// asRoot is a command that needs the rights of root.
func (m machine) asRoot(command string) string {
	if m.root {
		return command
	}
	return "sudo " + command
}

// install gives the command that installs a package of this name, which is the
// same everywhere for those that Weir needs, but for Arch's python.
func (m machine) install(name string) string {
	for _, family := range m.families {
		switch family {
		case "debian", "ubuntu":
			return m.asRoot("apt-get install -y " + name)
		case "fedora", "rhel", "centos":
			return m.asRoot("dnf install -y " + name)
		case "arch":
			if name == "python3" {
				name = "python"
			}
			return m.asRoot("pacman -S --noconfirm " + name)
		case "alpine":
			return m.asRoot("apk add " + name)
		case "suse", "opensuse":
			return m.asRoot("zypper install -y " + name)
		}
	}
	return "install the package " + name + " of this system"
}

const noSandbox = "no command and no code can run on this machine"

func (m machine) noBwrap() *sandbox.Problem {
	return &sandbox.Problem{What: "bubblewrap (bwrap) is not installed", Meaning: noSandbox, Remedy: m.install("bubblewrap")}
}

func (m machine) noPython() *sandbox.Problem {
	return &sandbox.Problem{
		What:    "no python3 in /usr/bin or /usr/local/bin",
		Meaning: "runs with code fail; runs with a command work",
		Remedy:  m.install("python3"),
	}
}

func (m machine) tooOld(version string) *sandbox.Problem {
	return &sandbox.Problem{
		What:    version + " is too old: 0.8 or newer is needed (--disable-userns)",
		Meaning: noSandbox,
		Remedy:  "upgrade this system: Debian 12, Ubuntu 23.04, Fedora 38 and Alpine 3.18 are the first that have it",
	}
}

// dockerOptions let a container make sandboxes of its own. They take away what
// keeps the container itself apart from its host.
const dockerOptions = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"

// inContainer is what a container forbids, and how it is allowed.
func (m machine) inContainer(what string) *sandbox.Problem {
	return &sandbox.Problem{
		What: what, Meaning: noSandbox,
		Remedy: "run weir outside of the container, or start the container with: " + dockerOptions,
	}
}

// diagnose turns bubblewrap's own words into a problem with its remedy.
func (b *Bubblewrap) diagnose(words, workspace string) *sandbox.Problem {
	m := b.machine
	said := strings.TrimPrefix(strings.TrimSpace(words), "bwrap: ")
	has := func(texts ...string) bool {
		for _, t := range texts {
			if strings.Contains(words, t) {
				return true
			}
		}
		return false
	}
	switch {
	case has("Can't find source path " + workspace):
		return b.unreachable(workspace)
	case has("setting up uid map: Permission denied", "Failed RTM_NEWADDR"):
		if m.container {
			return m.inContainer("this container forbids user namespaces (" + said + ")")
		}
		return &sandbox.Problem{What: "AppArmor forbids user namespaces (" + said + ")", Meaning: noSandbox, Remedy: m.appArmor(b.opts.Bwrap)}
	case has("No permissions to create new namespace", "No permissions to creating new namespace", "Creating new namespace failed: Operation not permitted"):
		if m.container {
			return m.inContainer("this container forbids user namespaces (" + said + ")")
		}
		return &sandbox.Problem{What: "this system forbids user namespaces (" + said + ")", Meaning: noSandbox, Remedy: m.allowNamespaces(b.opts.Bwrap)}
	case has("Can't mount proc on"):
		return m.inContainer("this container hides parts of /proc (" + said + ")")
	case has("nesting depth or", "No space left on device"):
		return &sandbox.Problem{
			What:    "there are no user namespaces left, or this is inside of another sandbox that forbids them (" + said + ")",
			Meaning: noSandbox, Remedy: m.asRoot("sysctl -w user.max_user_namespaces=15000"),
		}
	case has("Unknown option"):
		return m.tooOld("bubblewrap (" + said + ")")
	}
	return &sandbox.Problem{What: said, Meaning: noSandbox}
}

// appArmor lets bubblewrap make user namespaces where AppArmor restricts them.
func (m machine) appArmor(bwrap string) string {
	const name, shipped = "bwrap-userns-restrict", "/usr/share/apparmor/extra-profiles/"
	if bwrap != "/usr/bin/bwrap" { // the profile is for that path alone
		return fmt.Sprintf(`printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile weir-bwrap %s flags=(unconfined) { userns, }\n' | %s && %s`,
			bwrap, m.asRoot("tee /etc/apparmor.d/weir-bwrap"), m.asRoot("apparmor_parser -r /etc/apparmor.d/weir-bwrap"))
	}
	load := m.asRoot("apparmor_parser -r /etc/apparmor.d/" + name)
	if _, err := fs.Stat(m.files, "etc/apparmor.d/"+name); err == nil {
		return load // 25.04 and newer have it in place
	}
	cp := m.asRoot("cp "+shipped+name+" /etc/apparmor.d/") + " && " + load
	if _, err := fs.Stat(m.files, strings.TrimPrefix(shipped, "/")+name); err == nil {
		return cp
	}
	return m.install("apparmor-profiles") + " && " + cp
}

// allowNamespaces names the setting that forbids them, as far as it shows.
func (m machine) allowNamespaces(bwrap string) string {
	switch {
	case m.setting("user.max_user_namespaces") == "0":
		return m.asRoot("sysctl -w user.max_user_namespaces=15000")
	case m.setting("kernel.unprivileged_userns_clone") == "0":
		return m.asRoot("sysctl -w kernel.unprivileged_userns_clone=1")
	case m.setting("kernel.apparmor_restrict_unprivileged_userns") == "1":
		return m.appArmor(bwrap)
	}
	return "allow this user to make user namespaces: unshare --user true tells whether it may (a security module or a filter of system calls forbids it)"
}
