package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// cgroups makes control groups below the server's own, on version 1 or 2,
// where it has the right to.
type cgroups struct {
	v2   string            // the folder below which groups are made; "" on version 1
	v1   map[string]string // controller: folder
	have []string          // controllers in force: memory, pids, cpu
}

const cgroupRoot = "/sys/fs/cgroup"

// findCgroups tells which limits can be enforced by the kernel for a whole tree.
func findCgroups() *cgroups {
	c := &cgroups{v1: map[string]string{}}
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return c
	}
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for name := range strings.SplitSeq(f[1], ",") {
			dir := filepath.Join(cgroupRoot, name, f[2])
			if (name == "memory" || name == "pids" || name == "cpu") && canMake(dir) {
				c.v1[name] = dir
				c.have = append(c.have, name)
			}
		}
	}
	if len(c.have) == 0 {
		c.findV2()
	}
	slices.Sort(c.have)
	return c
}

// findV2 makes one group for all sandboxes below the root: a group that holds
// processes, as the server's own does, may not have limited children.
func (c *cgroups) findV2() {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err != nil || os.Geteuid() != 0 {
		return
	}
	dir := filepath.Join(cgroupRoot, "weir")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the kernel's own mode for groups
		return
	}
	for _, name := range []string{"memory", "pids", "cpu"} {
		_ = writeFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), "+"+name)
		if writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+name) == nil {
			c.have = append(c.have, name)
		}
	}
	if len(c.have) > 0 {
		c.v2 = dir
	}
}

// canMake tries it: a read-only mount or a missing right shows only then.
func canMake(dir string) bool {
	try := filepath.Join(dir, "weir-probe-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(try, 0o755); err != nil { //nolint:gosec // the kernel's own mode for groups
		return false
	}
	return os.Remove(try) == nil
}

func (c *cgroups) has(controller string) bool { return slices.Contains(c.have, controller) }

// group is the control group of one execution; nil has no limit.
type group struct{ dirs map[string]string } // controller, or "" for version 2: folder

// groupPrefix begins the name of every group of a replica.
func groupPrefix(replica string) string {
	return "weir-" + strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '_' {
			return r
		}
		return '_'
	}, replica) + "-"
}

// make makes the group of an execution with its limits.
func (c *cgroups) make(replica string, id run.ExecutionID, l sandbox.Limits) (*group, error) {
	if len(c.have) == 0 {
		return nil, nil
	}
	name := groupPrefix(replica) + string(id)
	g := &group{dirs: map[string]string{}}
	if c.v2 != "" {
		g.dirs[""] = filepath.Join(c.v2, name)
	}
	for controller, dir := range c.v1 {
		g.dirs[controller] = filepath.Join(dir, name)
	}
	for _, dir := range g.dirs {
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the kernel's own mode for groups
			g.remove()
			return nil, fmt.Errorf("making the control group %s: %w", dir, err)
		}
	}
	if err := c.limit(g, l); err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

func (c *cgroups) limit(g *group, l sandbox.Limits) error {
	type setting struct{ controller, file, value string }
	var all []setting
	memory := strconv.FormatInt(l.MemoryMiB<<20, 10)
	pids := strconv.FormatInt(l.PIDs+1, 10) // the namespace's own first process counts too
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
		if !wanted || !c.has(s.controller) || dir == "" {
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

// join moves a process into the group.
func (g *group) join(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.dirs {
		if err := writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("moving process %d into its control group: %w", pid, err)
		}
	}
	return nil
}

// members gives the processes in the group; ok is false without one.
func (g *group) members() (pids []int, ok bool) {
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

// oomKills counts the processes that the kernel killed for memory.
func (g *group) oomKills() int {
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

// remove removes the group. The kernel lets go of a dead process a little after
// it has been reaped, so this tries again for a second.
func (g *group) remove() bool {
	if g == nil {
		return true
	}
	ok := true
	for _, dir := range g.dirs {
		var err error
		for end := time.Now().Add(time.Second); ; {
			err = os.Remove(dir)
			if err == nil || errors.Is(err, os.ErrNotExist) || time.Now().After(end) {
				break
			}
			<-time.After(2 * time.Millisecond)
		}
		ok = ok && (err == nil || errors.Is(err, os.ErrNotExist))
	}
	return ok
}

// sweep removes the empty groups that an earlier process of the replica left.
func (c *cgroups) sweep(replica string) {
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
			_ = os.Remove(d) // refused by the kernel while a process is in it
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
