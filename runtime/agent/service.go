package agent

import (
	"cmp"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/sandbox"
)

// Service says how a long-lived agent is reached, asked and restarted.
type Service struct {
	// Where it listens: a socket in the workspace, or a port of 127.0.0.1, which
	// needs the network HOST.
	Socket string `yaml:"socket" json:"socket,omitempty"`
	Port   int    `yaml:"port" json:"port,omitempty"`

	UsagePath    string      `yaml:"usagePath" json:"usagePath,omitempty"`
	HealthPath   string      `yaml:"healthPath" json:"healthPath,omitempty"` // "": it is ready once it listens
	StartSeconds float64     `yaml:"startSeconds" json:"startSeconds,omitempty"`
	PollSeconds  float64     `yaml:"pollSeconds" json:"pollSeconds,omitempty"`
	MaxCrashes   int         `yaml:"maxCrashes" json:"maxCrashes,omitempty"` // in a row
	RestartDelay float64     `yaml:"restartDelaySeconds" json:"restartDelaySeconds,omitempty"`
	Transcript   *Transcript `yaml:"transcript" json:"transcript,omitempty"`
}

// Transcript says where an agent writes down its model calls.
type Transcript struct {
	Format    string `yaml:"format" json:"format,omitempty"`
	Folder    string `yaml:"folder" json:"folder,omitempty"` // in the workspace
	SessionID string `yaml:"sessionId" json:"sessionId,omitempty"`
}

// TranscriptClaude is the format of Claude Code's transcripts.
const TranscriptClaude = "claude"

// The defaults of a service.
const (
	defaultSocket       = "service.sock"
	defaultUsagePath    = "/usage/status"
	defaultStart        = 30 // seconds
	defaultPoll         = 15
	defaultCrashes      = 3
	defaultRestartDelay = 1
	defaultTranscripts  = ".claude/projects"

	minPoll         = 0.01
	maxRestartDelay = 5 * time.Minute
	maxCrashes      = 100
	// maxSocket is what a path of a socket may have in any of the sandboxes.
	maxSocket = 60
)

// WithDefaults fills in what is left open. A nil service is all defaults.
func (s *Service) WithDefaults() Service {
	var d Service
	if s != nil {
		d = *s
	}
	if d.Port == 0 {
		d.Socket = cmp.Or(d.Socket, defaultSocket)
	}
	d.UsagePath = cmp.Or(d.UsagePath, defaultUsagePath)
	d.StartSeconds = cmp.Or(d.StartSeconds, defaultStart)
	d.PollSeconds = cmp.Or(d.PollSeconds, defaultPoll)
	d.MaxCrashes = cmp.Or(d.MaxCrashes, defaultCrashes)
	d.RestartDelay = cmp.Or(d.RestartDelay, defaultRestartDelay)
	if d.Transcript != nil {
		t := *d.Transcript
		t.Format, t.Folder = cmp.Or(t.Format, TranscriptClaude), cmp.Or(t.Folder, defaultTranscripts)
		d.Transcript = &t
	}
	return d
}

// RestartAfter is how long a restart waits after so many crashes in a row: four
// times as long as the one before.
func (s Service) RestartAfter(crashes int) time.Duration {
	d := time.Duration(s.RestartDelay * float64(time.Second))
	for range crashes - 1 {
		if d *= 4; d > maxRestartDelay {
			return maxRestartDelay
		}
	}
	return min(d, maxRestartDelay)
}

func (f *file) checkService() {
	d := &f.def
	switch {
	case len(d.Command) > 0 && d.Code != "":
		f.add("$.command", "command and code are both set; set one of them")
	case len(d.Command) == 0 && d.Code == "":
		f.add("", "a service needs command or code")
	}
	if len(d.Turns) > 0 {
		f.add("$.turns", "turns belong to driver %s, not to %s", DriverReplay, DriverService)
	}
	s := d.Service
	if s == nil {
		return
	}
	switch {
	case s.Port != 0 && s.Socket != "":
		f.add("$.service", "port and socket are both set; set one of them")
	case s.Port < 0 || s.Port > 65535:
		f.add("$.service.port", "port is %d; it is between 1 and 65535", s.Port)
	case s.Port != 0 && d.Sandbox.Network != sandbox.NetworkHost:
		f.add("$.service.port", "port %d can only be reached with sandbox.network HOST; set that, or use a socket", s.Port)
	case s.Socket != "" && (!inWorkspace(s.Socket) || len(s.Socket) > maxSocket):
		f.add("$.service.socket", "the socket %q must be a path in the workspace, without . or .. parts, of at most %d bytes", clip(s.Socket), maxSocket)
	}
	f.checkURLPath("$.service.usagePath", s.UsagePath)
	f.checkURLPath("$.service.healthPath", s.HealthPath)
	f.seconds("$.service.startSeconds", s.StartSeconds)
	f.seconds("$.service.pollSeconds", s.PollSeconds)
	if s.PollSeconds > 0 && s.PollSeconds < minPoll {
		f.add("$.service.pollSeconds", "pollSeconds is %g; at least %g is needed", s.PollSeconds, minPoll)
	}
	f.seconds("$.service.restartDelaySeconds", s.RestartDelay)
	if s.MaxCrashes < 0 || s.MaxCrashes > maxCrashes {
		f.add("$.service.maxCrashes", "maxCrashes is %d; it is between 1 and %d", s.MaxCrashes, maxCrashes)
	}
	if t := s.Transcript; t != nil {
		f.checkTranscript(*t)
	}
}

func (f *file) checkTranscript(t Transcript) {
	if t.Format != "" && t.Format != TranscriptClaude {
		f.add("$.service.transcript.format", "unknown transcript format %q; it is %s", clip(t.Format), TranscriptClaude)
	}
	if t.Folder != "" && !inWorkspace(t.Folder) {
		f.add("$.service.transcript.folder", "the folder %q must be a path in the workspace, without . or .. parts", clip(t.Folder))
	}
	if t.SessionID != "" && !IsLabel(t.SessionID) {
		f.add("$.service.transcript.sessionId", "the session id %q may have letters, digits, _ and - only, at most %d", clip(t.SessionID), maxLabel)
	}
}

// checkURLPath wants a path that a URL can have, of the same server.
func (f *file) checkURLPath(at, path string) {
	if path == "" {
		return
	}
	u, err := url.ParseRequestURI(path)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		f.add(at, "the path %q must begin with one / and be a path of a URL, such as %s", clip(path), defaultUsagePath)
	}
}

func inWorkspace(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\x00\\")
}
