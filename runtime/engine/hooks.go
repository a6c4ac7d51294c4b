package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// afterSuccess lists the files and runs the hooks. Nothing here changes the
// outcome; only what stops the run cuts it short.
func (s *supervisor) afterSuccess(ctx context.Context, h *host) {
	s.announceFiles(ctx)
	for _, hook := range s.def.Hooks {
		if context.Cause(s.ctx) != nil {
			return
		}
		end := s.hook(ctx, h, hook)
		if end.IsError {
			s.e.log.Warn("A hook failed", "run", s.run.ID, "hook", hook.Name, "error", end.Text)
		}
		if err := s.emit.post(s.e.write, entry{drafts: []run.Draft{s.draft(end)}}); err != nil {
			s.e.log.Warn("Writing the end of a hook failed", "run", s.run.ID, "error", err)
		}
	}
}

// hook runs one hook in the run's sandbox.
func (s *supervisor) hook(ctx context.Context, h *host, hook agent.Hook) *run.HookFinished {
	end := &run.HookFinished{Name: hook.Name}
	res, out, err := h.Execute(ctx, agent.Exec{Command: hook.Command, NoStage: true})
	switch {
	case err != nil:
		end.IsError, end.Text = true, clean(err.Error(), maxText)
	case res.IsError():
		end.IsError = true
		code := ""
		if res.ExitCode != nil {
			code = fmt.Sprintf(", exit code %d", *res.ExitCode)
		}
		end.Text = clean(strings.TrimSpace(fmt.Sprintf("%s%s: %s", res.Class, code, clip(out.Stderr, 1000))), maxText)
	}
	return end
}

// announceFiles lists the new and changed files as artifacts.
func (s *supervisor) announceFiles(ctx context.Context) {
	files, problem := s.scan(ctx, maxHashed)
	if problem != "" {
		s.warn(problem)
	}
	if len(files) == 0 {
		return
	}
	x := entry{artifacts: files}
	report, large := reportIn(files)
	if report != "" {
		x.drafts = append(x.drafts, s.draft(&run.ReportReady{Path: report}))
	}
	if len(large) > 0 {
		s.warn(fmt.Sprintf("%s has %d bytes and is not shown as the report: at most %d are; make it shorter", large[0].Path, large[0].Size, maxReport))
	}
	list := &run.FilesReady{}
	for _, f := range files {
		list.Files = append(list.Files, run.FileInfo{Path: f.Path, Kind: f.Kind, Size: f.Size, SHA256: f.SHA256})
	}
	x.drafts = append(x.drafts, s.draft(list))
	if err := s.emit.post(s.e.write, x); err != nil {
		s.e.log.Warn("Writing the list of files failed", "run", s.run.ID, "error", err)
	}
}

// quietScan lists the files of a run that was not successful: the rows are
// kept, no event is made of them.
//
// It is short: an abort waits for it.
func (s *supervisor) quietScan(ctx context.Context) []run.Artifact {
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	files, problem := s.scan(ctx, quietHashed)
	if problem != "" {
		s.e.log.Warn("Listing a run's files failed", "run", s.run.ID, "error", problem)
	}
	return files
}

// scan gives the files that the run made or changed, and what went wrong.
func (s *supervisor) scan(ctx context.Context, hashed int64) ([]run.Artifact, string) {
	if s.place == nil {
		return nil, ""
	}
	known, err := s.e.store.SessionArtifacts(ctx, s.run.Session)
	if err != nil {
		return nil, "The files of earlier runs could not be loaded: " + err.Error()
	}
	files, err := s.place.changed(ctx, known, hashed)
	for i := range files {
		files[i].Run = s.run.ID
	}
	if err != nil {
		return files, "The workspace could not be read to its end, so files may be missing from the artifacts: " + err.Error()
	}
	return files, ""
}
