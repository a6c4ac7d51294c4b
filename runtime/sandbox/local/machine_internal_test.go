//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

func system(osRelease string, files ...string) fstest.MapFS {
	m := fstest.MapFS{"etc/os-release": {Data: []byte(osRelease)}}
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	debian = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID=\"12\"\n"
	ubuntu = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n"

	noNamespace = "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces."
	uidMap      = "bwrap: setting up uid map: Permission denied"
	loopback    = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"
	maskedProc  = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
	nested      = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
	profile     = "usr/share/apparmor/extra-profiles/bwrap-userns-restrict"
)

// fakeBwrap is a program that answers as a bubblewrap of a version does which
// cannot make its sandbox.
func fakeBwrap(t *testing.T, version, words string) string {
	t.Helper()
	top, err := os.MkdirTemp("", "weir-fake-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(top, "bwrap")
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo bubblewrap " + version + "; exit; fi\ncat >&2 <<'END'\n" + words + "\nEND\nexit 1\n"
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// The words are bubblewrap's own, from systems that this test does not have.
func TestProbeKnowsTheRemedies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files   fstest.MapFS
		root    bool
		version string
		words   string
		want    []string // in the reason
		remedy  string
	}{
		"apparmor": {system(ubuntu), false, "0.9.0", uidMap, []string{"AppArmor forbids user namespaces", "setting up uid map"}, "weir-bwrap"},
		"apparmor, network": {
			system(ubuntu), true, "0.9.0", loopback,
			[]string{"AppArmor", "RTM_NEWADDR"},
			"apparmor_parser -r",
		},
		"in docker": {
			system(debian, ".dockerenv"), true, "0.8.0", noNamespace,
			[]string{"this container forbids user namespaces"},
			"docker run --security-opt seccomp=unconfined",
		},
		"in podman": {
			system(debian, "run/.containerenv"), true, "0.8.0", noNamespace,
			[]string{"this container"},
			"outside of the container",
		},
		"in kubernetes": {
			system(debian, "proc/1/cgroup=0::/kubepods/pod1\n"), true, "0.8.0", uidMap,
			[]string{"this container"},
			"outside of the container",
		},
		"masked proc": {
			system(debian, ".dockerenv"), false, "0.8.0", maskedProc,
			[]string{"hides parts of /proc"},
			"systempaths=unconfined",
		},
		"sysctl of Debian": {
			system(debian, "proc/sys/kernel/unprivileged_userns_clone=0\n"), false, "0.8.0", noNamespace,
			[]string{"this system forbids user namespaces"},
			"sudo sysctl -w kernel.unprivileged_userns_clone=1",
		},
		"sysctl of all": {
			system(debian, "proc/sys/user/max_user_namespaces=0\n"), true, "0.8.0", noNamespace,
			[]string{"this system forbids"},
			"sysctl -w user.max_user_namespaces=15000",
		},
		"sysctl of Ubuntu": {
			system(ubuntu, "proc/sys/kernel/apparmor_restrict_unprivileged_userns=1\n"), true, "0.9.0", noNamespace,
			[]string{"this system forbids"},
			"apparmor_parser",
		},
		"no reason to be seen": {system(debian), true, "0.8.0", noNamespace, []string{"this system forbids"}, "unshare --user true"},
		"nested":               {system(debian), false, "0.8.0", nested, []string{"another sandbox"}, "sudo sysctl -w user.max_user_namespaces=15000"},
		"too old":              {system(debian), true, "0.6.1", "", []string{"bubblewrap 0.6.1 is too old"}, "upgrade"},
		"an unknown option":    {system(debian), true, "0.8.0", "bwrap: Unknown option --disable-userns", []string{"too old"}, "upgrade"},
		"unknown words":        {system(debian), true, "0.8.0", "bwrap: the moon is full", []string{"the moon is full", noSandbox}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := NewBubblewrap(Options{Bwrap: fakeBwrap(t, c.version, c.words)})
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			b.machine = newMachine(c.files, c.root)
			st := b.Probe(t.Context())
			if st.Available || st.Problem == nil || st.Problem.Misplaced || st.Problem.Meaning != noSandbox {
				t.Fatalf("%+v", st)
			}
			if !strings.Contains(st.Problem.Remedy, c.remedy) || (c.remedy == "") != (st.Problem.Remedy == "") {
				t.Errorf("remedy %q, want one with %q", st.Problem.Remedy, c.remedy)
			}
			for _, w := range append(c.want, c.remedy) {
				if !strings.Contains(st.Reason, w) {
					t.Errorf("reason %q lacks %q", st.Reason, w)
				}
			}
			// A run is told the same.
			_, err := b.Start(t.Context(), sandbox.Spec{Execution: run.NewExecutionID(), Command: []string{"true"}, Workspace: "/tmp"})
			if run.CodeOf(err) != run.Unavailable || !strings.Contains(err.Error(), st.Reason) {
				t.Errorf("a start says %v", err)
			}
		})
	}
}

func TestMissingProgramsNameTheirPackage(t *testing.T) {
	t.Parallel()
	for osRelease, want := range map[string][2]string{
		debian:                                  {"apt-get install -y bubblewrap", "apt-get install -y python3"},
		ubuntu:                                  {"apt-get install -y bubblewrap", "apt-get install -y python3"},
		"ID=fedora\n":                           {"dnf install -y bubblewrap", "dnf install -y python3"},
		"ID=\"rocky\"\nID_LIKE=\"rhel fedora\"": {"dnf install -y bubblewrap", "dnf install -y python3"},
		"ID=arch\n":                             {"pacman -S --noconfirm bubblewrap", "pacman -S --noconfirm python"},
		"ID=alpine\n":                           {"apk add bubblewrap", "apk add python3"},
		"ID=opensuse-leap\nID_LIKE='suse opensuse'": {"zypper install -y bubblewrap", "zypper install -y python3"},
		"ID=plan9\n": {"install the package bubblewrap of this system", "install the package python3 of this system"},
	} {
		m := newMachine(system(osRelease), true)
		if got := [2]string{m.noBwrap().Remedy, m.noPython().Remedy}; got != want {
			t.Errorf("%q: %q", osRelease, got)
		}
	}
	if got := newMachine(system(debian), false).noBwrap().Remedy; got != "sudo apt-get install -y bubblewrap" {
		t.Errorf("without root: %q", got)
	}
	if got := newMachine(fstest.MapFS{}, true).noBwrap().Remedy; got != "install the package bubblewrap of this system" {
		t.Errorf("without os-release: %q", got)
	}
}

func TestTheProfileIsLoadedFromWhereItLies(t *testing.T) {
	t.Parallel()
	const load = "apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
	for want, files := range map[string]fstest.MapFS{
		load: system(ubuntu, "etc/apparmor.d/bwrap-userns-restrict="),
		"cp /" + profile + " /etc/apparmor.d/ && " + load:                                         system(ubuntu, profile+"="),
		"apt-get install -y apparmor-profiles && cp /" + profile + " /etc/apparmor.d/ && " + load: system(ubuntu),
	} {
		if got := newMachine(files, true).appArmor("/usr/bin/bwrap"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := newMachine(system(ubuntu), false).appArmor("/opt/bwrap"); !strings.Contains(got, "profile weir-bwrap /opt/bwrap flags=(unconfined) { userns, }") || !strings.Contains(got, "sudo apparmor_parser") {
		t.Errorf("another path: %s", got)
	}
}

// An absent bubblewrap and python3, found as the real thing does.
func TestProbeWithoutItsPrograms(t *testing.T) {
	t.Parallel()
	b := NewBubblewrap(Options{})
	defer b.Close()
	b.opts.Bwrap = ""
	if st := b.Probe(t.Context()); st.Available || st.Problem == nil || st.Problem.What != "bubblewrap (bwrap) is not installed" || st.Problem.Remedy == "" {
		t.Errorf("%+v", st)
	}
	none := NewBubblewrap(Options{Bwrap: "/nonexistent/bwrap"})
	defer none.Close()
	if st := none.Probe(t.Context()); st.Available || st.Problem == nil || !strings.Contains(st.Problem.What, "/nonexistent/bwrap cannot be executed") {
		t.Errorf("%+v", st)
	}
}

// The probe makes its sandbox where the workspaces will lie.
func TestProbeRefusesAPlaceThatItsUserCannotReach(t *testing.T) {
	t.Parallel()
	b := probed(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	top, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	data := filepath.Join(top, "closed", "data")
	if err := os.MkdirAll(data, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(top, 0o711); err != nil {
		t.Fatal(err)
	}
	b.opts.Place = data
	if st := b.Probe(t.Context()); !st.Available {
		t.Fatalf("an open place: %s", st.Reason)
	}
	if err := os.Chmod(filepath.Dir(data), 0o700); err != nil {
		t.Fatal(err)
	}
	st := b.Probe(t.Context())
	if st.Available || st.Problem == nil || !st.Problem.Misplaced {
		t.Fatalf("%+v", st)
	}
	for _, w := range []string{"the user of a sandbox cannot reach", filepath.Dir(data) + " has the mode 0700", "the data folder " + data + ":", "chmod a+x " + filepath.Dir(data)} {
		if !strings.Contains(st.Reason, w) {
			t.Errorf("reason %q lacks %q", st.Reason, w)
		}
	}
	left, err := os.ReadDir(data)
	if err != nil || len(left) > 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
}

// A workspace is closed to all but its own user.
func TestAWorkspaceIsItsUsersOwn(t *testing.T) {
	t.Parallel()
	b := probed(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	dir := reachableFolder(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := b.try(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || info.Mode().Perm() != 0o700 || st.Uid < firstUID || st.Uid > lastUID || st.Gid != st.Uid {
		t.Errorf("mode %o, %+v", info.Mode().Perm(), info.Sys())
	}
}

// probed is a backend that works here.
func probed(t *testing.T) *Bubblewrap {
	t.Helper()
	b := NewBubblewrap(Options{})
	t.Cleanup(func() { _ = b.Close() })
	if s := b.Probe(t.Context()); !s.Available {
		if os.Getenv("CI") == "true" {
			t.Fatalf("cannot run in CI: %s", s.Reason)
		}
		t.Skipf("SKIPPED: no bubblewrap sandbox: %s", s.Reason)
	}
	return b
}
