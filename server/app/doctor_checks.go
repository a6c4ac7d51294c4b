package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/meter/pricebook"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

const (
	// patience bounds each check.
	patience = 30 * time.Second
	// littleSpace is what a data folder should have, in bytes.
	littleSpace = 1 << 30
	// tolerableSkew is how far two clocks may be apart before leases suffer.
	tolerableSkew = 5 * time.Second
)

// examine makes all checks, each as serve does the thing.
func (d *doctorCommand) examine(ctx context.Context, getenv func(string) string) []finding {
	cfg := d.Serve
	if err := cfg.Check(getenv); err != nil {
		f := wrong("settings", err)
		if f.Remedy == "" {
			f.Remedy = "weir serve --help tells what it takes"
		}
		return []finding{f}
	}
	d.Serve = cfg
	data, undo := d.data()
	defer undo()
	placed := data.Verdict != problem
	found, closed := d.sandbox(ctx, placed)
	if placed && closed != nil {
		data.Verdict, data.What = problem, d.Data+" is closed to the user of the sandboxes"
		data.Meaning, data.Remedy = "weir serve does not start", closed.Remedy
		if d.AllowUnsandboxed {
			data.Verdict, data.Meaning = warning, "no sandbox can work there"
		}
	}
	found = append(found, data)
	for _, check := range []func() finding{
		func() finding { return d.database(ctx, placed) }, func() finding { return d.port(ctx) }, d.agents, d.prices, clock,
	} {
		if ctx.Err() != nil {
			return found // nobody waits for the rest
		}
		found = append(found, check())
	}
	return found
}

// advice is the end of an error that says what to do.
var advice = regexp.MustCompile(`; [^;]+$|: (set|stop|choose|check|give|put|name|make|free|close) [^:]+$`)

// wrong makes a problem of an error of serve, whose last part says what to do.
func wrong(check string, err error) finding {
	f := finding{Check: check, Verdict: problem, What: err.Error(), Meaning: "weir serve does not start"}
	if at := advice.FindStringIndex(f.What); at != nil {
		f.What, f.Remedy = f.What[:at[0]], f.What[at[0]+2:]
	}
	return f
}

// data checks the data folder, and makes it for the other checks: undo removes
// what was not there before.
func (d *doctorCommand) data() (f finding, undo func()) {
	dir := d.Data
	var made []string // from the inside out
	for p := dir; ; p = filepath.Dir(p) {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		made = append(made, p)
	}
	before, absent := os.Stat(dir)
	undo = func() {
		if now, err := os.Stat(dir); absent == nil && err == nil && now.Mode() != before.Mode() {
			_ = os.Chmod(dir, before.Mode().Perm()) // the server would have opened it
		}
		for _, p := range made {
			_ = os.Remove(p) // refused if somebody uses it by now
		}
	}
	if err := makeData(dir); err != nil {
		return wrong("data", err), undo
	}
	test, err := os.CreateTemp(dir, "weir-doctor-")
	if err != nil {
		return finding{
			Check: "data", Verdict: problem, What: fmt.Sprintf("the data folder %s cannot be written: %v", dir, cause(err)),
			Meaning: "weir serve does not start", Remedy: "give this user write permission, or choose another folder with --data",
		}, undo
	}
	_ = test.Close()
	_ = os.Remove(test.Name())
	f = finding{Check: "data", Verdict: fine, What: dir}
	if len(made) > 0 {
		f.What += " can be made"
	}
	if free, ok := freeSpace(dir); ok {
		f.What += ", " + size(free) + " free"
		if free < littleSpace {
			f.Verdict, f.Meaning = warning, "runs write their workspaces and their events there; a full disk stops them"
			f.Remedy = "free some space, or choose another folder with --data"
		}
	}
	return f, undo
}

func size(n uint64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// sandbox tries the sandbox as the server does, with python3 and the limits.
// closed is set when it is the data folder that keeps it from working.
func (d *doctorCommand) sandbox(ctx context.Context, placed bool) (found []finding, closed *sandbox.Problem) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := local.Options{Python: d.Python}
	if placed {
		o.Place = d.Data
	}
	b := local.NewBubblewrap(o)
	defer func() { _ = b.Close() }()
	st := b.Probe(ctx)
	if !st.Available {
		f := finding{Check: "sandbox", Verdict: problem, What: st.Problem.What, Meaning: st.Problem.Meaning, Remedy: st.Problem.Remedy}
		if d.AllowUnsandboxed {
			f.Meaning = "weir serve runs commands as plain processes (UNSANDBOXED): they can do all that this user can"
		}
		if st.Problem.Misplaced {
			closed = st.Problem
			if !d.AllowUnsandboxed {
				f.Meaning += "; weir serve does not start"
			}
		}
		return []finding{f}, closed
	}
	found = []finding{{Check: "sandbox", Verdict: fine, What: st.Detail + ": works"}, d.python(ctx, b)}
	if runtime.GOOS == "linux" {
		found = append(found, limits(st)...)
	}
	return found, nil
}

// limits sorts what holds for all of a command from what does not.
func limits(st sandbox.Status) []finding {
	var hard, soft []string
	how := ""
	for _, l := range st.Limits {
		if l.Hard {
			hard, how = append(hard, l.Name), l.How
		} else {
			soft = append(soft, l.Name+" ("+l.How+")")
		}
	}
	var words []string
	if len(hard) > 0 {
		words = append(words, "hard: "+strings.Join(hard, ", ")+" ("+how+")")
	}
	if len(soft) > 0 {
		words = append(words, "soft: "+strings.Join(soft, ", "))
	}
	found := []finding{{Check: "limits", Verdict: fine, What: strings.Join(words, "; ")}}
	for _, c := range st.Caveats {
		if c.Remedy != "" && !strings.Contains(c.What, "python3") { // that has a check of its own
			f := &found[0]
			f.Verdict, f.Meaning, f.Remedy = warning, c.Meaning, c.Remedy
		}
	}
	return found
}

// python runs the interpreter in the sandbox.
func (d *doctorCommand) python(ctx context.Context, b sandbox.Backend) finding {
	f := finding{Check: "python3", Verdict: warning, Meaning: "runs with code fail; runs with a command work"}
	if err := d.SandboxPython(); err != nil {
		return finding{Check: "python3", Verdict: problem, What: err.Error(), Meaning: "weir serve does not start", Remedy: "leave --python out, or name one below /usr"}
	}
	dir, err := os.MkdirTemp(d.Data, "weir-doctor-")
	if err != nil {
		f.What, f.Remedy = fmt.Sprintf("not tried: %v", cause(err)), "mend the data folder first"
		return f
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var out words
	res, err := sandbox.Run(ctx, b, sandbox.Spec{
		Execution: run.NewExecutionID(), Workspace: dir,
		Code:   "import sys, platform\nprint('python', platform.python_version(), 'at', sys.executable)\n",
		Limits: sandbox.Limits{Timeout: patience / 2, MemoryMiB: 256, PIDs: 16, CPUs: 1, DiskMiB: 16, MaxOutputBytes: 1 << 10},
	}, &out, sandbox.Options{})
	switch {
	case err == nil && res.Class == run.ClassOK:
		return finding{Check: "python3", Verdict: fine, What: strings.TrimSpace(out.text)}
	case err == nil:
		f.What = fmt.Sprintf("it fails in the sandbox (%s): %s", res.Class, strings.TrimSpace(out.text))
		return f
	}
	f.What = err.Error()
	if p := new(sandbox.Problem); errors.As(err, &p) {
		f.What, f.Meaning, f.Remedy = p.What, p.Meaning, p.Remedy
	}
	return f
}

// words is a sink that keeps the little that is printed.
type words struct{ text string }

// Write implements sandbox.Sink. The two outputs of what is run here do not
// both print.
func (w *words) Write(_ context.Context, c sandbox.Chunk) error {
	w.text += c.Text
	return nil
}

// database tries the database, in the data folder only if that can be used.
func (d *doctorCommand) database(ctx context.Context, placed bool) finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := store.Options{Path: d.Data, URL: d.DB}
	switch {
	case placed:
	case d.DB == "":
		return finding{
			Check: "database", Verdict: problem, What: "not tried: it would lie in the data folder, which cannot be used",
			Meaning: "weir serve does not start", Remedy: "mend the data folder first",
		}
	default:
		o.Path = ""
	}
	h, err := store.Check(ctx, o)
	if err != nil {
		return wrong("database", err)
	}
	f := finding{Check: "database", Verdict: fine}
	switch {
	case h.Fresh:
		f.What = "SQLite, to be made: " + h.Where
	case h.Dialect == "sqlite":
		f.What = "SQLite " + h.Version + ": " + h.Where
	default:
		f.What = "PostgreSQL " + h.Version + ": " + h.Where
	}
	if h.Skew.Abs() > tolerableSkew {
		f.Verdict = warning
		f.What += fmt.Sprintf("; its clock differs from this one's by %s", h.Skew.Abs().Round(time.Second))
		f.Meaning = "servers that share the database take each other's runs for lost, or too late"
		f.Remedy = "set both clocks by NTP: timedatectl set-ntp true"
	}
	return f
}

func (d *doctorCommand) port(ctx context.Context) finding {
	l, err := listen(ctx, d.Listen)
	if err != nil {
		return wrong("port", err)
	}
	_ = l.Close()
	f := finding{Check: "port", Verdict: fine, What: d.Listen + " is free"}
	if d.Token == "" {
		f.What += "; without a token every user of this machine can act as you"
	}
	return f
}

func (d *doctorCommand) agents() finding {
	set, err := loadAgents(d.Agents, slog.New(slog.DiscardHandler))
	if err != nil {
		return wrong("agents", err)
	}
	f := finding{Check: "agents", Verdict: fine, What: count(len(set.List()), "agent")}
	if d.Agents == "" {
		f.What += ", the built-in one (no folder is set)"
		return f
	}
	f.What += " in " + d.Agents + ", the built-in one included"
	if all := set.Problems(); len(all) > 0 {
		f.Verdict = warning
		f.What += "; " + all[0].String()
		if n := len(all) - 1; n > 0 {
			f.What += fmt.Sprintf(", and %d more", n)
		}
		f.Meaning = "weir serve starts without what is broken"
		f.Remedy = "mend that file"
	}
	return f
}

// prices checks the price file.
func (d *doctorCommand) prices() finding {
	book, err := pricebook.ReadPath(d.Prices)
	if err != nil {
		return finding{
			Check: "prices", Verdict: problem, What: "--prices: " + err.Error(), Meaning: "weir serve does not start",
			Remedy: "weir prices check " + d.Prices,
		}
	}
	s := book.Summary()
	return finding{Check: "prices", Verdict: fine, What: fmt.Sprintf("%s, the newest of %s", count(s.Models, "model"), s.Newest)}
}

// clock finds a clock that was never set: times, leases and prices depend on it.
func clock() finding {
	now := time.Now()
	f := finding{Check: "clock", Verdict: fine, What: now.UTC().Format("2006-01-02 15:04 UTC")}
	built := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil && s.Key == "vcs.time" {
				built = t
			}
		}
	}
	if now.Before(built.Add(-24 * time.Hour)) {
		f.Verdict, f.What = warning, f.What+" is before this program was made"
		f.Meaning = "every time that Weir keeps is wrong, and so are the prices that it takes"
		f.Remedy = "timedatectl set-ntp true"
	}
	return f
}
