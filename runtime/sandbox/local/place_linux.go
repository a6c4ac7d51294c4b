package local

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// privateHome is HOME where the workspace is a folder of the user's own: what
// programs leave in a home goes with the sandbox.
const privateHome = "/weir/home"

// inside is where the command sees its workspace.
func inside(spec sandbox.Spec) string {
	if spec.Place != nil {
		return spec.Workspace
	}
	return "/workspace"
}

func homeInside(spec sandbox.Spec) string {
	if spec.Place != nil {
		return privateHome
	}
	return "/workspace"
}

// passwd is the sandbox's /etc/passwd.
func passwd(spec sandbox.Spec) []byte {
	return []byte("weir:x:1000:1000:weir:" + homeInside(spec) + ":/bin/sh\n" + nobody)
}

// places are the options that bring the workspace into the sandbox, and what else
// of the machine it is to see. A folder comes before what lies in it, so that the
// inner one keeps its own rights.
func places(spec sandbox.Spec) []string {
	if spec.Place == nil {
		return []string{"--bind", spec.Workspace, "/workspace"}
	}
	size := int64(1024)
	if m := spec.Limits.MemoryMiB; m > 0 {
		size = min(size, max(m/2, 1))
	}
	args := []string{"--size", strconv.FormatInt(size*mib, 10), "--tmpfs", privateHome}
	all := append([]run.Mount{{From: spec.Workspace, At: spec.Workspace}}, spec.Place.Mounts...)
	writable := func(m run.Mount) bool { return m == all[0] }
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b run.Mount) int { return cmp.Compare(a.At, b.At) })
	for _, m := range sorted {
		option := "--ro-bind"
		if writable(m) {
			option = "--bind"
		}
		args = append(args, option, m.From, m.At)
	}
	return args
}
