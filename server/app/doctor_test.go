package app

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// doctor runs weir doctor --json and gives its findings by check.
func doctor(t *testing.T, args ...string) (map[string]finding, error) {
	t.Helper()
	var out, log text
	err := Run(t.Context(), append([]string{"doctor", "--json"}, args...), none, &out, &log)
	var got struct {
		OK     bool
		Checks []finding
	}
	if e := json.Unmarshal([]byte(out.String()), &got); e != nil {
		t.Fatalf("%v, %v\n%s%s", err, e, out.String(), log.String())
	}
	if got.OK != (err == nil) || (err != nil && !errors.Is(err, errUnfit)) {
		t.Errorf("ok is %v, the error %v", got.OK, err)
	}
	all := map[string]finding{}
	for _, f := range got.Checks {
		if f.Verdict != fine && (f.Meaning == "" || f.Remedy == "") {
			t.Errorf("%+v does not say what it means and what mends it", f)
		}
		all[f.Check] = f
	}
	return all, err
}

// sandboxed leaves a test out where there is no sandbox.
func sandboxed(t *testing.T) {
	t.Helper()
	b := local.NewBubblewrap(local.Options{})
	defer func() { _ = b.Close() }()
	if st := b.Probe(t.Context()); !st.Available {
		pgtest.Need(t, "a sandbox is missing: "+st.Reason)
	}
}

func TestDoctorFindsEachFault(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	agents := t.TempDir()
	for name, content := range map[string]string{"good.yaml": "name: good\ndriver: script\ncommand: [date]\n", "bad.yaml": "name: bad\ndriver: dance\n"} {
		if err := os.WriteFile(filepath.Join(agents, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(agents, "good.yaml")
	dangling := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nothing", dangling); err != nil {
		t.Fatal(err)
	}
	damaged := dataFolder(t)
	if err := os.WriteFile(filepath.Join(damaged, "weir.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args    []string
		check   string
		verdict verdict
		what    string
		remedy  string
	}{
		"all is well":      {nil, "sandbox", fine, "bubblewrap 0.", ""},
		"python":           {nil, "python3", fine, "python 3.", ""},
		"a new folder":     {[]string{"--data", dataFolder(t) + "/a/b"}, "data", fine, "/a/b can be made, ", ""},
		"data is a file":   {[]string{"--data", file}, "data", problem, "is a file", "--data"},
		"data in nowhere":  {[]string{"--data", "/proc/weir"}, "data", problem, "/proc/weir cannot be made", "--data"},
		"no folder for it": {[]string{"--data", "/proc/weir"}, "database", problem, "not tried", "data folder"},
		"a dangling link":  {[]string{"--data", dangling}, "data", problem, "leads nowhere", "--data"},
		"none for it":      {[]string{"--data", dangling}, "database", problem, "not tried", "data folder"},
		"no database":      {[]string{"--data", damaged}, "database", problem, "is not a Weir database", "move it away"},
		"no server":        {[]string{"--db", "postgres://u:geheim@127.0.0.1:1/db"}, "database", problem, "127.0.0.1:1", "check that the server runs"},
		"PostgreSQL":       {[]string{"--db", pgtest.Database(t)}, "database", fine, "PostgreSQL 1", ""},
		"port in use":      {[]string{"--listen", taken.Addr().String()}, "port", problem, "in use", "another address"},
		"a broken agent":   {[]string{"--agents", agents}, "agents", warning, "bad.yaml", "mend that file"},
		"another Python":   {[]string{"--python", "/proc/self/exe"}, "settings", problem, "sees only /usr", ""},
		"not shown to it":  {[]string{"--allow-unsandboxed", "--python", "/proc/self/exe"}, "python3", problem, "sees only /usr", "below /usr"},
		"a wrong setting":  {[]string{"--listen", "0.0.0.0:80"}, "settings", problem, "0.0.0.0:80", "WEIR_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--listen", "127.0.0.1:0", "--data", dataFolder(t)}, c.args...)
			found, err := doctor(t, args...)
			f := found[c.check]
			if f.Verdict != c.verdict || !strings.Contains(f.What, c.what) || !strings.Contains(f.Remedy, c.remedy) {
				t.Errorf("%+v, want %s %q -> %q", f, c.verdict, c.what, c.remedy)
			}
			if (err != nil) != (c.verdict == problem) {
				t.Errorf("the doctor ends with %v: %+v", err, found)
			}
			if strings.Contains(f.What+f.Remedy, "geheim") {
				t.Error("it shows a password")
			}
		})
	}
}

// A database elsewhere is looked at whatever the data folder is.
func TestDoctorLooksAtADatabaseElsewhere(t *testing.T) {
	t.Parallel()
	found, err := doctor(t, "--listen", "127.0.0.1:0", "--data", "/proc/weir", "--db", pgtest.Database(t))
	if f := found["database"]; err == nil || f.Verdict != fine || found["data"].Verdict != problem {
		t.Errorf("%v %+v", err, found)
	}
}

// A folder that the sandbox's user cannot reach is refused by both, with the same words.
func TestAnUnreachableDataFolderIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only a server that runs as root starts commands as another user")
	}
	closed := dataFolder(t)
	data := filepath.Join(closed, "data")
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	found, err := doctor(t, "--listen", "127.0.0.1:0", "--data", data)
	f := found["sandbox"]
	if err == nil || f.Verdict != problem || f.Remedy != "chmod a+x "+closed || !strings.Contains(f.What, "cannot reach the data folder "+data+": "+closed+" has the mode 0700") || !strings.Contains(f.Meaning, "does not start") {
		t.Errorf("%v %+v", err, f)
	}
	if f := found["data"]; f.Verdict != problem || f.Remedy != "chmod a+x "+closed || !strings.Contains(f.What, "is closed to the user of the sandboxes") {
		t.Errorf("%+v", f)
	}
	if f := found["database"]; f.Verdict != fine {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the doctor left the folder: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a server that starts would go on
	defer cancel()
	var out text
	err = Run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--data", data}, none, &out, &out)
	if err == nil || !strings.Contains(err.Error(), f.What) || !strings.Contains(err.Error(), f.Remedy) || strings.Contains(err.Error(), "\n") {
		t.Errorf("serve says %v\n%s", err, out.String())
	}
	// A data folder itself is the server's to open.
	own := dataFolder(t)
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := doctor(t, "--listen", "127.0.0.1:0", "--data", own); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the doctor changed its mode: %v %v", info.Mode(), err)
	}
	start(t, "serve", "--listen", "127.0.0.1:0", "--data", own)
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the server gave it the mode %v %v", info.Mode(), err)
	}
}

func TestTheReportFitsATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := report(&out, []finding{
		{Check: "sandbox", Verdict: problem, What: "bubblewrap (bwrap) is not installed", Meaning: "no command and no code can run on this machine", Remedy: "apt-get install -y bubblewrap"},
		{Check: "data", Verdict: fine, What: "/var/lib/weir, 68 GiB free"},
		{Check: "limits", Verdict: warning, What: strings.Repeat("word ", 20) + strings.Repeat("x", 90) + " end", Meaning: "m", Remedy: strings.Repeat("long ", 30)},
	}, 1, 1)
	want := `PROBLEM  sandbox   bubblewrap (bwrap) is not installed
                   no command and no code can run on this machine
                   -> apt-get install -y bubblewrap
OK       data      /var/lib/weir, 68 GiB free
WARNING  limits    word word word word word word word word word word word word
                   word word word word word word word word
                   ` + strings.Repeat("x", 90) + `
                   end
                   m
                   -> ` + strings.Repeat("long ", 30) + `

1 problem and 1 warning. Mend the problems, then run weir doctor again.
`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
}
