//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/sandbox/local/cgroup"
)

// A container may have few ids, and then all sandboxes share one, which is said.
func TestUsersWhereIDsAreFew(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("cannot run in CI: needs root")
		}
		t.Skip("SKIPPED: needs root")
	}
	info, err := os.Stat("/")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		forced int
		maps   []string
		all    int
	}{
		"all ids":        {0, []string{"         0          0 4294967295\n", "0 0 4294967295\n"}, 0},
		"several ranges": {0, []string{"0 100000 65536\n1800000000 1800000000 1000000000\n", "0 0 2147483647\n"}, 0},
		"a container":    {0, []string{"0 100000 65536\n", "0 100000 65536\n"}, DefaultUID},
		"few groups":     {0, []string{"0 0 4294967295\n", "0 100000 65536\n"}, DefaultUID},
		"one too few":    {0, []string{"0 0 2147483646\n", "0 0 4294967295\n"}, DefaultUID},
		"forced":         {77, []string{"0 0 4294967295\n", "0 0 4294967295\n"}, 77},
		"unknown":        {0, []string{"", "0 0 4294967295\n"}, DefaultUID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for i, text := range c.maps {
				path := filepath.Join(t.TempDir(), string(rune('a'+i)))
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				paths = append(paths, path)
			}
			u := findUsers(c.forced, paths...)
			if one, two := u.of("/one", info), u.of("/two", info); u.all != c.all || (one == two) != (c.all != 0) || (c.all != 0 && one != c.all) {
				t.Errorf("%+v: %d and %d", u, one, two)
			}
			b := &Bubblewrap{opts: Options{UID: c.forced}, users: u, cgroups: &cgroup.Groups{}}
			_, caveats := b.limits()
			said := false
			for _, p := range caveats {
				said = said || strings.Contains(p.What, "all sandboxes have the one user id 61234")
			}
			if said != (c.all == DefaultUID) {
				t.Errorf("caveats %+v", caveats)
			}
		})
	}
}
