// Package config is what an operator decides: flags and environment as one
// checked struct. A flag wins over its environment variable, which wins over
// the default; a wrong value is refused before anything is touched.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/textfile"
)

// Serve is the configuration of a server. The tags are read by the command
// line; setting names the environment variable.
type Serve struct {
	Listen string `help:"Address of the API and the page. Any address but loopback needs a token." default:"127.0.0.1:8080" setting:"WEIR_LISTEN" placeholder:"HOST:PORT"`
	Data   string `help:"Folder of the database and the workspaces; made if it is not there." default:"${data}" setting:"WEIR_DATA" placeholder:"DIR"`
	DB     string `help:"postgres:// URL; empty: SQLite in the data folder." setting:"WEIR_DB" placeholder:"URL"`
	Agents string `help:"Folder of agent definitions (*.yaml)." setting:"WEIR_AGENTS" placeholder:"DIR"`

	Prices string `help:"Price file; its models take the place of the shipped ones. It is read again when it changes." setting:"WEIR_PRICES" placeholder:"FILE"`

	TokenFile    string   `help:"File with the token that requests must carry; or the token itself in WEIR_TOKEN." setting:"WEIR_TOKEN_FILE" placeholder:"FILE"`
	AllowHosts   []string `name:"allow-host" help:"Host names besides loopback under which the server is reached." setting:"WEIR_ALLOW_HOSTS" placeholder:"NAME"`
	AllowOrigins []string `name:"allow-origin" help:"Origins of other pages that may use the API, such as https://app.example." setting:"WEIR_ALLOW_ORIGINS" placeholder:"URL"`

	Concurrency int           `help:"Root runs that are live at once; the rest waits." default:"8" setting:"WEIR_CONCURRENCY" placeholder:"N"`
	StopTimeout time.Duration `help:"How long live runs may go on when the server stops." default:"10s" setting:"WEIR_STOP_TIMEOUT" placeholder:"DURATION"`

	SnapshotInterval time.Duration `help:"How often the usage of live runs is kept." default:"1m" setting:"WEIR_SNAPSHOT_INTERVAL" placeholder:"DURATION"`
	SnapshotKeepDays int           `help:"How many days these snapshots are kept; the last one of a run stays. 0: all of them, for ever." default:"30" setting:"WEIR_SNAPSHOT_KEEP_DAYS" placeholder:"N"`
	RollupInterval   time.Duration `help:"How often the sums of closed runs are brought up to date." default:"1m" setting:"WEIR_ROLLUP_INTERVAL" placeholder:"DURATION"`

	Budget Budget `embed:"" prefix:"budget-"`

	Sandbox Sandbox `embed:"" prefix:"sandbox-"`

	AllowUnsandboxed bool `help:"Run commands as plain processes where no sandbox works. They can then do all that this user can." setting:"WEIR_ALLOW_UNSANDBOXED"`

	Python string `help:"Python interpreter for code; empty: python3 in /usr/bin or /usr/local/bin." setting:"WEIR_PYTHON" placeholder:"FILE"`

	LogLevel  string `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info" setting:"WEIR_LOG_LEVEL" placeholder:"LEVEL"`
	LogFormat string `help:"text or json." enum:"text,json" default:"text" setting:"WEIR_LOG_FORMAT" placeholder:"FORMAT"`

	// Token is read from WEIR_TOKEN or TokenFile by Check: as a flag every user
	// of the machine could see it.
	Token string `kong:"-"`
}

// Sandbox bounds what a request can ask of a sandbox. A number of 0 leaves the
// built-in bound.
type Sandbox struct {
	MaxSeconds     float64  `help:"Longest execution, in seconds." setting:"WEIR_SANDBOX_MAX_SECONDS" placeholder:"S"`
	MaxMemoryMiB   int64    `name:"max-memory-mib" help:"Most memory of an execution." setting:"WEIR_SANDBOX_MAX_MEMORY_MIB" placeholder:"MIB"`
	MaxCPUs        float64  `name:"max-cpus" help:"Most CPUs of an execution." setting:"WEIR_SANDBOX_MAX_CPUS" placeholder:"N"`
	MaxPIDs        int64    `name:"max-pids" help:"Most processes of an execution." setting:"WEIR_SANDBOX_MAX_PIDS" placeholder:"N"`
	MaxDiskMiB     int64    `name:"max-disk-mib" help:"Most disk of an execution." setting:"WEIR_SANDBOX_MAX_DISK_MIB" placeholder:"MIB"`
	MaxOutputBytes int64    `help:"Most output of an execution, in bytes." setting:"WEIR_SANDBOX_MAX_OUTPUT_BYTES" placeholder:"BYTES"`
	AllowHost      bool     `name:"allow-host-network" help:"Let requests choose the network HOST. Needs a token: such code can reach the API." setting:"WEIR_SANDBOX_ALLOW_HOST_NETWORK"`
	GPUs           []string `name:"gpus" help:"GPU types that requests can choose." setting:"WEIR_SANDBOX_GPUS" placeholder:"TYPE"`
}

// DefaultData is where the data lives unless the operator says otherwise.
// Sandboxed commands of a root server run as another user, who can reach
// /var/lib but not /root.
func DefaultData(getenv func(string) string) string {
	if os.Geteuid() == 0 {
		return "/var/lib/weir"
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "weir")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "weir")
	}
	return "weir-data"
}

// maxKeepDays is a hundred years.
const maxKeepDays = 36_500

// minToken keeps out tokens that can be guessed.
const minToken = 16

// Check completes the configuration and refuses what cannot work.
func (s *Serve) Check(getenv func(string) string) error {
	if err := s.readToken(getenv); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return fmt.Errorf("--listen %q is not HOST:PORT, for example 127.0.0.1:8080", s.Listen)
	}
	if !Loopback(host) && s.Token == "" {
		return fmt.Errorf("--listen %s can be reached from other machines and needs a token: set WEIR_TOKEN or --token-file, or listen on 127.0.0.1", s.Listen)
	}
	if s.Data == "" {
		return errors.New("--data is empty; name a folder")
	}
	if s.Data, err = filepath.Abs(s.Data); err != nil {
		return fmt.Errorf("--data %q: %w", s.Data, err)
	}
	if s.Agents != "" {
		if fi, err := os.Stat(s.Agents); err != nil {
			return fmt.Errorf("--agents %s: %w", s.Agents, plain(err))
		} else if !fi.IsDir() {
			return fmt.Errorf("--agents %s is not a folder", s.Agents)
		}
	}
	if err := s.checkPython(); err != nil {
		return err
	}
	for _, o := range s.AllowOrigins {
		u, err := url.Parse(o)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" {
			return fmt.Errorf("--allow-origin %q is not an origin such as https://app.example", o)
		}
	}
	for _, h := range s.AllowHosts {
		if h == "" || strings.ContainsAny(h, "/ @") {
			return fmt.Errorf("--allow-host %q is not a host name", h)
		}
	}
	if s.Concurrency < 1 || s.Concurrency > 10_000 {
		return fmt.Errorf("--concurrency %d is not between 1 and 10000", s.Concurrency)
	}
	if s.StopTimeout < 0 || s.StopTimeout > 24*time.Hour {
		return fmt.Errorf("--stop-timeout %s is not between 0s and 24h", s.StopTimeout)
	}
	for _, i := range []struct { // 0 leaves the built-in interval
		name  string
		value time.Duration
	}{{"snapshot-interval", s.SnapshotInterval}, {"rollup-interval", s.RollupInterval}} {
		if i.value != 0 && i.value < time.Second || i.value > 24*time.Hour {
			return fmt.Errorf("--%s %s is not between 1s and 24h", i.name, i.value)
		}
	}
	if s.SnapshotKeepDays < 0 || s.SnapshotKeepDays > maxKeepDays {
		return fmt.Errorf("--snapshot-keep-days %d is not between 0 (for ever) and %d", s.SnapshotKeepDays, maxKeepDays)
	}
	if err := s.Budget.check(); err != nil {
		return err
	}
	return s.Sandbox.check(s.Token)
}

func (s *Sandbox) check(token string) error {
	for _, l := range []struct {
		name  string
		value float64
	}{
		{"max-seconds", s.MaxSeconds},
		{"max-memory-mib", float64(s.MaxMemoryMiB)},
		{"max-cpus", s.MaxCPUs},
		{"max-pids", float64(s.MaxPIDs)},
		{"max-disk-mib", float64(s.MaxDiskMiB)},
		{"max-output-bytes", float64(s.MaxOutputBytes)},
	} {
		if l.value < 0 || l.value > 1e15 || math.IsNaN(l.value) {
			return fmt.Errorf("--sandbox-%s %v must be above 0 and below 1e15", l.name, l.value)
		}
	}
	if s.AllowHost && token == "" {
		return errors.New("--sandbox-allow-host-network needs a token, since code in the host's network can call this API: set WEIR_TOKEN or --token-file")
	}
	return nil
}

// maxToken bounds a token's file, in bytes.
const maxToken = 64 << 10

func (s *Serve) readToken(getenv func(string) string) error {
	s.Token = getenv("WEIR_TOKEN")
	from := "WEIR_TOKEN"
	if s.TokenFile != "" {
		if s.Token != "" {
			return errors.New("WEIR_TOKEN and --token-file are both set; set one of them")
		}
		data, err := textfile.Read(s.TokenFile, maxToken)
		if err != nil {
			return fmt.Errorf("--token-file %s: %w", s.TokenFile, plain(err))
		}
		s.Token, from = strings.TrimSpace(string(data)), "--token-file "+s.TokenFile
		if s.Token == "" {
			return fmt.Errorf("--token-file %s is empty", s.TokenFile)
		}
	}
	switch {
	case s.Token == "":
	case len(s.Token) < minToken:
		return fmt.Errorf("the token of %s has %d characters, at least %d are needed", from, len(s.Token), minToken)
	case strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("the token of %s holds a space or a character outside ASCII", from)
	}
	return nil
}

// Loopback tells whether only this machine can reach the host of an address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// Level is the log level.
func (s *Serve) Level() slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(s.LogLevel)) // the command line allows valid names only
	return l
}

// plain drops the operation and the path of a file error: the message names
// them already.
func plain(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// checkPython refuses an interpreter that no run could use.
func (s *Serve) checkPython() error {
	if s.Python == "" {
		return nil
	}
	if !filepath.IsAbs(s.Python) {
		return fmt.Errorf("--python %q is not an absolute path", s.Python)
	}
	fi, err := os.Stat(s.Python)
	switch {
	case err != nil:
		return fmt.Errorf("--python %s: %w", s.Python, plain(err))
	case fi.IsDir() || fi.Mode()&0o111 == 0:
		return fmt.Errorf("--python %s is not a program", s.Python)
	case s.AllowUnsandboxed:
		return nil
	}
	return s.SandboxPython()
}

// SandboxPython refuses an interpreter that a sandbox cannot show: it sees of
// this machine only /usr. Plain processes see more.
func (s *Serve) SandboxPython() error {
	if s.Python == "" {
		return nil
	}
	what, err := hidden(s.Python, "/usr")
	switch {
	case err != nil:
		return fmt.Errorf("--python %s: %w", s.Python, plain(err))
	case what == "":
		return nil
	}
	return fmt.Errorf("--python %s cannot be used: a sandbox sees only /usr of this machine; install the interpreter and its packages below /usr, for example in /usr/local", what)
}

// hidden names a program that who sees only root cannot start; "" for others.
// The program may be a link there that leads out of it.
func hidden(program, root string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(program))
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(program)
	switch {
	case err != nil:
		return "", err
	case !strings.HasPrefix(dir+"/", root+"/"):
		return program, nil
	case !strings.HasPrefix(target, root+"/"):
		return program + ", which is a link to " + target + ",", nil
	}
	return "", nil
}
