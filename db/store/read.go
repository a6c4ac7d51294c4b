package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

const (
	maxRows     = 10_000 // of lists that are not paged
	defaultPage = 50
	maxPage     = 1000
	maxSearch   = 1000 // bytes
)

// pageOf checks a page query.
func pageOf(p run.PageQuery, prefix string) (int, error) {
	switch {
	case p.First < 0:
		return 0, run.Errorf(run.Invalid, "first is %d; it must not be negative", p.First)
	case p.First > maxPage:
		return 0, run.Errorf(run.Invalid, "first is %d; the most is %d", p.First, maxPage)
	case p.After != "" && !run.ValidID(prefix, p.After):
		return 0, run.Errorf(run.Invalid, "the cursor %.60q is malformed; use the endCursor of the page before", p.After)
	case p.First == 0:
		return defaultPage, nil
	}
	return p.First, nil
}

type sessionRow struct {
	ID        string `bun:"id"`
	SID       int64  `bun:"sid"`
	LastSeq   int64  `bun:"last_seq"`
	FirstSeq  int64  `bun:"first_seq"`
	FoldedSeq int64  `bun:"folded_seq"`
	Title     string `bun:"title"`
	State     string `bun:"state"`
	CreatedUS int64  `bun:"created_us"`
	Active    string `bun:"active"`
}

func (r *sessionRow) session() run.Session {
	return run.Session{
		ID: run.SessionID(r.ID), Title: r.Title, CreatedAt: timeOf(r.CreatedUS), LastSeq: r.LastSeq, FirstSeq: r.FirstSeq,
		State: r.State, ActiveRun: run.ID(r.Active),
	}
}

// activeRun is the live root run of the session s.
const activeRun = "SELECT l.id FROM runs l WHERE l.session_id = s.id AND l.parent_id = '' AND l.status IN ('RUNNING', 'WAITING')"

func sessionsQuery(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().TableExpr("sessions AS s").
		ColumnExpr("s.id, s.sid, s.last_seq, s.first_seq, s.folded_seq, s.title, s.state, s.created_us").
		ColumnExpr("coalesce((" + activeRun + "), '') AS active")
}

func (s *Store) session(ctx context.Context, db bun.IDB, id run.SessionID) (sessionRow, error) {
	var row sessionRow
	err := sessionsQuery(db).Where("s.id = ?", string(id)).Limit(1).Scan(ctx, &row)
	if errors.Is(err, sql.ErrNoRows) {
		return row, noSession(id)
	}
	if err != nil {
		return row, s.readError("reading a session", err)
	}
	return row, nil
}

// Session gives a session.
func (s *Store) Session(ctx context.Context, id run.SessionID) (run.Session, error) {
	row, err := s.session(ctx, s.read, id)
	if err != nil {
		return run.Session{}, err
	}
	return row.session(), nil
}

// Sessions gives a page of sessions, newest first.
func (s *Store) Sessions(ctx context.Context, f run.SessionFilter, p run.PageQuery) (run.Page[run.Session], error) {
	var page run.Page[run.Session]
	first, err := pageOf(p, "ses")
	if err != nil {
		return page, err
	}
	var rows []sessionRow
	q := sessionsQuery(s.read).OrderExpr("s.id DESC").Limit(first + 1)
	if p.After != "" {
		q = q.Where("s.id < ?", p.After)
	}
	if len(f.Text) > maxSearch {
		return page, run.Errorf(run.Invalid, "search has %d bytes; at most %d are allowed", len(f.Text), maxSearch)
	}
	if f.Text != "" {
		part := "%" + likeEscape.Replace(strings.ToLower(clean(f.Text))) + "%"
		q = q.Where("(s.title_fold LIKE ? ESCAPE '!' OR s.id LIKE ? ESCAPE '!' OR "+
			"EXISTS (SELECT 1 FROM session_texts x WHERE x.session_id = s.id AND x.text_fold LIKE ? ESCAPE '!'))", part, part, part)
	}
	if f.Live != nil {
		if *f.Live {
			q = q.Where("EXISTS (" + activeRun + ")")
		} else {
			q = q.Where("NOT EXISTS (" + activeRun + ")")
		}
	}
	if err := q.Scan(ctx, &rows); err != nil {
		return page, s.readError("reading sessions", err)
	}
	if page.HasMore = len(rows) > first; page.HasMore {
		rows = rows[:first]
	}
	for i := range rows {
		page.Nodes = append(page.Nodes, rows[i].session())
		page.End = rows[i].ID
	}
	return page, nil
}

var likeEscape = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// Run gives a run.
func (s *Store) Run(ctx context.Context, id run.ID) (run.Run, error) {
	found, err := s.readRuns(ctx, func(q *bun.SelectQuery) *bun.SelectQuery { return q.Where("r.id = ?", string(id)).Limit(1) })
	if err != nil {
		return run.Run{}, err
	}
	if len(found) == 0 {
		return run.Run{}, noRun(id)
	}
	return found[0], nil
}

func (s *Store) readRuns(ctx context.Context, where func(*bun.SelectQuery) *bun.SelectQuery) ([]run.Run, error) {
	var rows []runRow
	if err := where(s.read.NewSelect().Model(&rows)).Scan(ctx); err != nil {
		return nil, s.readError("reading runs", err)
	}
	return toRuns(rows)
}

// known gives NotFound for a run that does not exist, so that an empty list
// means what it says.
func (s *Store) known(ctx context.Context, id run.ID) error {
	var one int
	err := s.read.NewSelect().TableExpr("runs").ColumnExpr("1").Where("id = ?", string(id)).Limit(1).Scan(ctx, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return noRun(id)
	}
	if err != nil {
		return s.readError("looking for a run", err)
	}
	return nil
}

// Runs gives a page of runs, newest first.
func (s *Store) Runs(ctx context.Context, f run.RunFilter, p run.PageQuery) (run.Page[run.Run], error) {
	var page run.Page[run.Run]
	first, err := pageOf(p, "run")
	if err != nil {
		return page, err
	}
	nodes, err := s.readRuns(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.OrderExpr("r.id DESC").Limit(first + 1)
		if p.After != "" {
			q = q.Where("r.id < ?", p.After)
		}
		if len(f.IDs) > 0 {
			q = q.Where("r.id IN (?)", bun.List(f.IDs))
		}
		if f.Session != "" {
			q = q.Where("r.session_id = ?", string(f.Session))
		}
		if len(f.Statuses) > 0 {
			q = q.Where("r.status IN (?)", bun.List(f.Statuses))
		}
		if f.Agent != "" {
			q = q.Where("r.agent = ?", f.Agent)
		}
		if f.RootOnly {
			q = q.Where("r.parent_id = ''")
		}
		return q
	})
	if err != nil {
		return page, err
	}
	if page.HasMore = len(nodes) > first; page.HasMore {
		nodes = nodes[:first]
	}
	page.Nodes = nodes
	if len(nodes) > 0 {
		page.End = string(nodes[len(nodes)-1].ID)
	}
	return page, nil
}

// Children gives the runs that a run delegated to, oldest first.
func (s *Store) Children(ctx context.Context, id run.ID) ([]run.Run, error) {
	if err := s.known(ctx, id); err != nil {
		return nil, err
	}
	return s.readRuns(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("r.parent_id = ?", string(id)).Order("r.created_us", "r.id").Limit(maxRows)
	})
}

// Owned gives the live runs of a replica, children before parents.
func (s *Store) Owned(ctx context.Context, owner string) ([]run.Run, error) {
	found, err := s.readRuns(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("r.owner = ?", owner).Where("r.status IN (?)", bun.List([]run.Status{run.Running, run.Waiting})).Order("r.created_us", "r.id")
	})
	if err != nil {
		return nil, err
	}
	parent := make(map[run.ID]run.ID, len(found))
	for _, r := range found {
		parent[r.ID] = r.Parent
	}
	depth := func(id run.ID) int {
		d := 0
		for p := parent[id]; p != "" && d <= len(found); p = parent[p] {
			d++
		}
		return d
	}
	slices.SortStableFunc(found, func(a, b run.Run) int { return depth(b.ID) - depth(a.ID) })
	return found, nil
}

// InclusiveUsage sums up a run and everything it delegated to.
func (s *Store) InclusiveUsage(ctx context.Context, id run.ID) (run.Usage, error) {
	var rows []usageSums
	if err := s.read.NewSelect().TableExpr("runs").ColumnExpr(sumColumns).Where("id IN ("+treeOf+")", string(id)).Order("created_us", "id").Scan(ctx, &rows); err != nil {
		return run.Usage{}, s.readError("summing up runs", err)
	}
	if len(rows) == 0 {
		return run.Usage{}, noRun(id)
	}
	var sum run.Usage
	for _, r := range rows {
		sum = sum.Add(r.usage())
	}
	return sum, nil
}

// Executions gives a run's executions, oldest first.
func (s *Store) Executions(ctx context.Context, id run.ID) ([]run.Execution, error) {
	if err := s.known(ctx, id); err != nil {
		return nil, err
	}
	var rows []executionRow
	if err := s.read.NewSelect().Model(&rows).Where("run_id = ?", string(id)).Order("started_us", "id").Limit(maxRows).Scan(ctx); err != nil {
		return nil, s.readError("reading executions", err)
	}
	out := make([]run.Execution, len(rows))
	for i := range rows {
		var err error
		if out[i], err = rows[i].execution(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// SessionOf gives the session of an execution.
func (s *Store) SessionOf(ctx context.Context, id run.ExecutionID) (run.SessionID, error) {
	var found []string
	err := s.read.NewSelect().TableExpr("executions AS x").ColumnExpr("r.session_id").Join("JOIN runs AS r ON r.id = x.run_id").
		Where("x.id = ?", string(id)).Scan(ctx, &found)
	switch {
	case err != nil:
		return "", s.readError("finding an execution", err)
	case len(found) == 0:
		return "", run.Errorf(run.NotFound, "there is no execution %s", id)
	}
	return run.SessionID(found[0]), nil
}

// Artifacts gives a run's artifacts by path.
func (s *Store) Artifacts(ctx context.Context, id run.ID) ([]run.Artifact, error) {
	if err := s.known(ctx, id); err != nil {
		return nil, err
	}
	return s.readArtifacts(ctx, func(q *bun.SelectQuery) *bun.SelectQuery { return q.Where("a.run_id = ?", string(id)) })
}

func (s *Store) readArtifacts(ctx context.Context, where func(*bun.SelectQuery) *bun.SelectQuery) ([]run.Artifact, error) {
	var rows []artifactRow
	if err := where(s.read.NewSelect().Model(&rows)).Order("a.path").Limit(maxRows).Scan(ctx); err != nil {
		return nil, s.readError("reading artifacts", err)
	}
	out := make([]run.Artifact, len(rows))
	for i := range rows {
		out[i] = rows[i].artifact()
	}
	return out, nil
}

// SessionArtifacts gives the newest artifact per path of a session: that of the
// run that was created last.
func (s *Store) SessionArtifacts(ctx context.Context, id run.SessionID) ([]run.Artifact, error) {
	if _, err := s.session(ctx, s.read, id); err != nil {
		return nil, err
	}
	return s.readArtifacts(ctx, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Join("JOIN runs AS r ON r.id = a.run_id").Where("a.session_id = ?", string(id)).
			Where("NOT EXISTS (SELECT 1 FROM artifacts b JOIN runs q ON q.id = b.run_id WHERE b.session_id = a.session_id AND b.path = a.path AND (q.created_us, q.id) > (r.created_us, r.id))")
	})
}

// Questions gives a run's questions, oldest first.
func (s *Store) Questions(ctx context.Context, id run.ID) ([]run.Question, error) {
	if err := s.known(ctx, id); err != nil {
		return nil, err
	}
	var rows []questionRow
	if err := s.read.NewSelect().Model(&rows).Where("run_id = ?", string(id)).Order("asked_us", "id").Limit(maxRows).Scan(ctx); err != nil {
		return nil, s.readError("reading questions", err)
	}
	out := make([]run.Question, len(rows))
	for i := range rows {
		out[i] = rows[i].question()
	}
	return out, nil
}
