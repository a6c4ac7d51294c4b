package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// Groups makes control groups below the server's own, on version 1 or 2,
// where it has the right to.
type Groups struct {
	v2   string            // the folder below which groups are made; "" on version 1
	v1   map[string]string // controller: folder
	have []string          // controllers in force: memory, pids, cpu
}

// mounted is where control groups are mounted.
const mounted = "/sys/fs/cgroup"

// membership is read once: /proc/self names the groups of the main thread, which
// may be a starter by then and stand in the groups of a command.
var membership = sync.OnceValue(func() string {
	data, _ := os.ReadFile("/proc/self/cgroup") // without it there are no groups
	return string(data)
})

// Find tells which limits can be enforced by the kernel for a whole tree that
// this process starts.
func Find(uid int) *Groups { return find(mounted, membership(), uid) }

// find looks below root, where control groups are mounted; self lists the groups
// of this process.
func find(root, self string, uid int) *Groups {
	c := &Groups{v1: map[string]string{}}
	own := ""
	for line := range strings.Lines(self) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			own = f[2]
		}
		for name := range strings.SplitSeq(f[1], ",") {
			dir := filepath.Join(root, name, f[2])
			if (name == "memory" || name == "pids" || name == "cpu") && canMake(dir) {
				c.v1[name] = dir
				c.have = append(c.have, name)
			}
		}
	}
	if len(c.have) == 0 && own != "" {
		c.findV2(root, own, uid)
	}
	slices.Sort(c.have)
	return c
}

// findV2 looks for a place of version 2 in which groups can be made: for root
// one below the root group, for another user the group that was handed to the
// server (Delegate=yes). A group that holds processes may not have limited
// children, so the server moves into one of its own.
func (c *Groups) findV2(root, own string, uid int) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		return
	}
	top := root
	if uid != 0 {
		top = filepath.Join(root, own)
	}
	dir := filepath.Join(top, "weir")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the kernel's own mode for groups
		return
	}
	if uid != 0 {
		if err := moveServer(top); err != nil {
			_ = os.Remove(dir)
			return
		}
	}
	for _, name := range []string{"memory", "pids", "cpu"} {
		_ = writeFile(filepath.Join(top, "cgroup.subtree_control"), "+"+name)
		if writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+name) == nil {
			c.have = append(c.have, name)
		}
	}
	if len(c.have) == 0 {
		_ = os.Remove(dir) // refused while another server uses it
		return
	}
	c.v2 = dir
}

// moveServer moves every process of a group into a child of it.
func moveServer(top string) error {
	dir := filepath.Join(top, "server")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the kernel's own mode for groups
		return fmt.Errorf("making the server's control group: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(top, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("reading the control group: %w", err)
	}
	for _, pid := range strings.Fields(string(data)) {
		if err := writeFile(filepath.Join(dir, "cgroup.procs"), pid); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("moving process %s into the server's control group: %w", pid, err)
		}
	}
	return nil
}

// Label names what enforces limits.
func (c *Groups) Label() string {
	switch {
	case len(c.have) == 0:
		return "none"
	case c.v2 != "":
		return "control group, version 2 (experimental)"
	}
	return "control group, version 1"
}

// canMake tries it: a read-only mount or a missing right shows only then.
func canMake(dir string) bool {
	try := filepath.Join(dir, "weir-probe-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(try, 0o755); err != nil { //nolint:gosec // the kernel's own mode for groups
		return false
	}
	return os.Remove(try) == nil
}

// Has tells whether a controller is in force.
func (c *Groups) Has(controller string) bool { return slices.Contains(c.have, controller) }

// Group is the control group of one execution; nil has no limit.
type Group struct {
	dirs map[string]string // controller, or "" for version 2: folder
	home map[string]string // version 1: the server's own groups
	free chan struct{}     // closed once the thread that started the command has left
}

// groupPrefix begins the name of every group of a replica.
func groupPrefix(replica string) string {
	return "weir-" + strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '_' {
			return r
		}
		return '_'
	}, replica) + "-"
}

// Make makes the group of an execution, without limits yet.
func (c *Groups) Make(replica string, id run.ExecutionID) (*Group, error) {
	if len(c.have) == 0 {
		return nil, nil
	}
	name := groupPrefix(replica) + string(id)
	g := &Group{dirs: map[string]string{}, home: c.v1, free: make(chan struct{})}
	if c.v2 != "" {
		g.dirs[""] = filepath.Join(c.v2, name)
	}
	for controller, dir := range c.v1 {
		g.dirs[controller] = filepath.Join(dir, name)
	}
	for _, dir := range g.dirs {
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the kernel's own mode for groups
			g.Remove()
			return nil, fmt.Errorf("making the control group %s: %w", dir, err)
		}
	}
	return g, nil
}

// Limit sets the limits whose controllers are in force.
func (c *Groups) Limit(g *Group, l sandbox.Limits) error {
	if g == nil {
		return nil
	}
	type setting struct{ controller, file, value string }
	var all []setting
	memory := strconv.FormatInt(l.MemoryMiB<<20, 10)
	pids := strconv.FormatInt(l.PIDs+2, 10) // bubblewrap and the namespace's first process count too
	quota := max(int64(l.CPUs*100_000), 1000)
	if c.v2 != "" {
		all = []setting{
			{"memory", "memory.max", memory},
			{"memory", "memory.swap.max", "0"},
			{"memory", "memory.oom.group", "0"},
			{"pids", "pids.max", pids},
			{"cpu", "cpu.max", fmt.Sprintf("%d 100000", quota)},
		}
	} else {
		all = []setting{
			{"memory", "memory.limit_in_bytes", memory},
			{"memory", "memory.memsw.limit_in_bytes", memory},
			{"memory", "memory.kmem.tcp.limit_in_bytes", memory}, // of UDP too; version 2 counts sockets as memory
			{"pids", "pids.max", pids},
			{"cpu", "cpu.cfs_period_us", "100000"},
			{"cpu", "cpu.cfs_quota_us", strconv.FormatInt(quota, 10)},
		}
	}
	for _, s := range all {
		dir := g.dirs[s.controller]
		if c.v2 != "" {
			dir = g.dirs[""]
		}
		wanted := (s.controller == "memory" && l.MemoryMiB > 0) || (s.controller == "pids" && l.PIDs > 0) || (s.controller == "cpu" && l.CPUs > 0)
		if !wanted || !c.Has(s.controller) || dir == "" {
			continue
		}
		err := writeFile(filepath.Join(dir, s.file), s.value)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without swap accounting or without group kills
		}
		if err != nil {
			return fmt.Errorf("setting the limit %s to %s: %w", s.file, s.value, err)
		}
	}
	return nil
}

// StartIn starts cmd as a member of the group, so that it never was outside. It
// runs on a thread of its own: on version 1 the thread enters the group, gives
// its membership to its child and goes home. A thread that moves itself takes
// no lock of the whole system; moving another process waits for all processors,
// which takes milliseconds. On version 2 the kernel makes the child in the group.
func (g *Group) StartIn(cmd *exec.Cmd) error {
	if g == nil {
		return cmd.Start()
	}
	if dir := g.dirs[""]; dir != "" {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("opening the control group: %w", err)
		}
		defer f.Close() //nolint:errcheck // opened for reading
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
		return cmd.Start()
	}
	if err := enter(g.dirs); err != nil {
		return err
	}
	return cmd.Start()
}

// Leave takes the thread home that has started a command in the group.
func (g *Group) Leave() {
	if g != nil {
		_ = enter(g.home) // then the group stays until the next start; its removal reports it
		close(g.free)
	}
}

// Left waits for leave, which follows a start at once.
func (g *Group) Left() {
	if g != nil {
		<-g.free
	}
}

// enter moves the calling thread into groups of version 1.
func enter(dirs map[string]string) error {
	for _, dir := range dirs {
		if err := writeFile(filepath.Join(dir, "tasks"), "0"); err != nil {
			return fmt.Errorf("entering the control group %s: %w", dir, err)
		}
	}
	return nil
}

// Members gives the processes in the group; ok is false without one.
func (g *Group) Members() (pids []int, ok bool) {
	if g == nil {
		return nil, false
	}
	for _, dir := range g.dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
		return pids, true
	}
	return nil, false
}

// OOMKills counts the processes that the kernel killed for memory.
func (g *Group) OOMKills() int {
	if g == nil {
		return 0
	}
	for file, dir := range map[string]string{"memory.oom_control": g.dirs["memory"], "memory.events": g.dirs[""]} {
		if dir == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
				n, _ := strconv.Atoi(f[1])
				return n
			}
		}
	}
	return 0
}

// Remove removes the group. The kernel lets go of a dead process a little after
// it has been reaped, so this tries again for a second.
func (g *Group) Remove() bool {
	if g == nil {
		return true
	}
	ok := true
	for _, dir := range g.dirs {
		ok = removeGroup(dir) && ok
	}
	return ok
}

func removeGroup(dir string) bool {
	for end := time.Now().Add(time.Second); ; {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		<-time.After(2 * time.Millisecond)
	}
}

// Sweep removes the empty groups that an earlier process of the replica left.
func (c *Groups) Sweep(replica string) {
	dirs := make([]string, 0, len(c.v1)+1)
	for _, dir := range c.v1 {
		dirs = append(dirs, dir)
	}
	if c.v2 != "" {
		dirs = append(dirs, c.v2)
	}
	for _, dir := range dirs {
		left, _ := filepath.Glob(filepath.Join(dir, groupPrefix(replica)+"exe_*"))
		for _, d := range left {
			removeGroup(d) // refused by the kernel while a process is in it
		}
	}
}

func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
