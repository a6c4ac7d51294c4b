package config_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/server/config"
)

const token = "0123456789abcdef"

func valid(t *testing.T) config.Serve {
	t.Helper()
	return config.Serve{
		Listen: "127.0.0.1:0", Data: t.TempDir(), Concurrency: 8, StopTimeout: time.Second,
	}
}

func TestCheckRefusesNamingTheValue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program := file("program", "x")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	empty, short := file("empty", "\n"), file("short", "abc\n")
	for name, c := range map[string]struct {
		change func(*config.Serve)
		env    string
		want   []string
	}{
		"no port":            {func(s *config.Serve) { s.Listen = "localhost" }, "", []string{`"localhost"`, "127.0.0.1:8080"}},
		"all addresses":      {func(s *config.Serve) { s.Listen = ":80" }, "", []string{":80", "WEIR_TOKEN"}},
		"open address":       {func(s *config.Serve) { s.Listen = "0.0.0.0:80" }, "", []string{"0.0.0.0:80", "WEIR_TOKEN"}},
		"a name":             {func(s *config.Serve) { s.Listen = "weir.example:80" }, "", []string{"weir.example", "WEIR_TOKEN"}},
		"short token":        {func(*config.Serve) {}, "abc", []string{"WEIR_TOKEN has 3 characters", "16"}},
		"token with a space": {func(*config.Serve) {}, "0123456789 abcdef", []string{"holds a space"}},
		"two tokens":         {func(s *config.Serve) { s.TokenFile = short }, token, []string{"both set"}},
		"empty token file":   {func(s *config.Serve) { s.TokenFile = empty }, "", []string{empty, "is empty"}},
		"short token file":   {func(s *config.Serve) { s.TokenFile = short }, "", []string{short, "3 characters"}},
		"no token file":      {func(s *config.Serve) { s.TokenFile = dir + "/none" }, "", []string{dir + "/none: no such file"}},
		"no data":            {func(s *config.Serve) { s.Data = "" }, "", []string{"--data is empty"}},
		"no agents folder":   {func(s *config.Serve) { s.Agents = dir + "/none" }, "", []string{dir + "/none: no such file"}},
		"agents is a file":   {func(s *config.Serve) { s.Agents = short }, "", []string{short, "not a folder"}},
		"not an origin":      {func(s *config.Serve) { s.AllowOrigins = []string{"app.example"} }, "", []string{`"app.example"`}},
		"origin with a path": {func(s *config.Serve) { s.AllowOrigins = []string{"https://a.example/x"} }, "", []string{"https://a.example/x"}},
		"host with a path":   {func(s *config.Serve) { s.AllowHosts = []string{"a/b"} }, "", []string{`"a/b"`}},
		"python is absent":   {func(s *config.Serve) { s.Python = dir + "/python3" }, "", []string{dir + "/python3: no such file"}},
		"python, relative":   {func(s *config.Serve) { s.Python = "python3" }, "", []string{`"python3"`, "absolute"}},
		"python is a text":   {func(s *config.Serve) { s.Python = short }, "", []string{short, "not a program"}},
		"python elsewhere":   {func(s *config.Serve) { s.Python = "/proc/self/exe" }, "", []string{"/proc/self/exe", "/usr"}},
		"python, back out":   {func(s *config.Serve) { s.Python = "/usr/.." + program }, "", []string{"/usr/.." + program + " cannot", "sees only /usr"}},
		"no concurrency":     {func(s *config.Serve) { s.Concurrency = 0 }, "", []string{"--concurrency 0"}},
		"quick snapshots":    {func(s *config.Serve) { s.SnapshotInterval = time.Millisecond }, "", []string{"--snapshot-interval 1ms", "1s and 24h"}},
		"negative days":      {func(s *config.Serve) { s.SnapshotKeepDays = -1 }, "", []string{"--snapshot-keep-days -1", "0 (for ever) and 36500"}},
		"rare rollups":       {func(s *config.Serve) { s.RollupInterval = 25 * time.Hour }, "", []string{"--rollup-interval 25h0m0s", "1s and 24h"}},
		"negative wait":      {func(s *config.Serve) { s.StopTimeout = -1 }, "", []string{"--stop-timeout -1ns"}},
		"no memory":          {func(s *config.Serve) { s.Sandbox.MaxMemoryMiB = -5 }, "", []string{"--sandbox-max-memory-mib -5"}},
		"not a number":       {func(s *config.Serve) { s.Sandbox.MaxCPUs = math.NaN() }, "", []string{"--sandbox-max-cpus NaN"}},
		"host network":       {func(s *config.Serve) { s.Sandbox.AllowHost = true }, "", []string{"--sandbox-allow-host-network", "WEIR_TOKEN"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valid(t)
			c.change(&s)
			err := s.Check(func(k string) string {
				if k == "WEIR_TOKEN" {
					return c.env
				}
				return ""
			})
			for _, w := range c.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want it to say %q", err, w)
				}
			}
		})
	}
}

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	withToken := func(k string) string {
		if k == "WEIR_TOKEN" {
			return token
		}
		return ""
	}
	none := func(string) string { return "" }
	for name, c := range map[string]struct {
		change func(*config.Serve)
		getenv func(string) string
	}{
		"loopback":            {func(*config.Serve) {}, none},
		"loopback by name":    {func(s *config.Serve) { s.Listen = "localhost:0" }, none},
		"loopback, version 6": {func(s *config.Serve) { s.Listen = "[::1]:0" }, none},
		"open with a token":   {func(s *config.Serve) { s.Listen = "0.0.0.0:0" }, withToken},
		"an origin":           {func(s *config.Serve) { s.AllowOrigins = []string{"https://a.example:8443"} }, none},
		"host network":        {func(s *config.Serve) { s.Sandbox.AllowHost = true }, withToken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valid(t)
			c.change(&s)
			if err := s.Check(c.getenv); err != nil {
				t.Error(err)
			}
			if !filepath.IsAbs(s.Data) {
				t.Errorf("the data folder %q is not absolute", s.Data)
			}
		})
	}
}
