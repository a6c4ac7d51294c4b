package config

import (
	"os"
	"path/filepath"
	"testing"
)

// Only what lies below the root, by all its links, is seen there.
func TestHidden(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := base + "/root"
	for _, dir := range []string{root + "/bin", base + "/rootless", base + "/out"} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/root/bin/p", "/out/p", "/rootless/p"} {
		if err := os.WriteFile(base+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"/root/in": "bin/p", "/root/away": base + "/out/p", "/bin": "root/bin", "/out/back": root + "/bin/p",
	} {
		if err := os.Symlink(to, base+name); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"/root/bin/p":    "",
		"/root/in":       "",
		"/bin/p":         "", // as /bin is a link to usr/bin
		"/out/p":         base + "/out/p",
		"/rootless/p":    base + "/rootless/p",
		"/root/../out/p": base + "/root/../out/p",
		"/out/back":      base + "/out/back",
		"/root/away":     base + "/root/away, which is a link to " + base + "/out/p,",
	} {
		if got, err := hidden(base+name, root); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := hidden(root+"/none", root); err == nil {
		t.Error("there is no error for a program that is not there")
	}
}
