// Package graph is Weir's public contract as GraphQL: thin resolvers over five
// small interfaces, and the limits that keep one request from hurting others.
//
// Guarantees:
//   - An error that a client sees carries extensions.code and says what was
//     wrong; anything unexpected is logged under an id and shown as that id only.
//   - An event has the same bytes wherever it is asked for.
//   - Every list is bounded, in length by its arguments and in cost by the
//     complexity limit. A subscription's goroutine ends with its context, and
//     Wait waits for it.
package graph

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/weirhq/weir/graph/generated"
	"github.com/weirhq/weir/runtime/run"
)

// Runs starts, stops and answers runs. Errors for the user are *run.Error.
type Runs interface {
	CreateSession(ctx context.Context, title string) (run.Session, error)
	DeleteSession(ctx context.Context, id run.SessionID) error
	Start(ctx context.Context, r run.StartRequest) (run.Run, error)
	Message(ctx context.Context, r run.MessageRequest) (run.Run, error)
	// Abort gives the receipt, and whether the run was still open.
	Abort(ctx context.Context, o run.AbortOrder) (run.Receipt, bool, error)
	Answer(ctx context.Context, id string, answer json.RawMessage) (run.Question, error)
	// Reprice prices usage records again and gives what changed, or would.
	Reprice(ctx context.Context, r run.Reprice) ([]run.RepriceLine, error)
	// Budgets gives the budgets of today and what was used of them.
	Budgets(ctx context.Context) ([]run.BudgetState, error)
	// Losses gives the accounts so far of the executions that are at work here.
	// Who reads them before the rows finds each execution in one of the two.
	Losses(id run.ID) map[run.ExecutionID]run.Loss
	// Outputs tells what is kept here of an execution's raw output.
	Outputs(session run.SessionID, id run.ExecutionID) ([]run.Output, error)
}

// Reader reads what is committed. An unknown id is a *run.Error with NOT_FOUND.
type Reader interface {
	Session(ctx context.Context, id run.SessionID) (run.Session, error)
	Sessions(ctx context.Context, f run.SessionFilter, p run.PageQuery) (run.Page[run.Session], error)
	Run(ctx context.Context, id run.ID) (run.Run, error)
	Runs(ctx context.Context, f run.RunFilter, p run.PageQuery) (run.Page[run.Run], error)
	Children(ctx context.Context, id run.ID) ([]run.Run, error)
	InclusiveUsage(ctx context.Context, id run.ID) (run.Usage, error)
	SessionUsage(ctx context.Context, id run.SessionID) (run.Usage, error)
	RecordPage(ctx context.Context, q run.RecordQuery) ([]run.UsageRecord, error)
	Snapshots(ctx context.Context, q run.SnapshotQuery) ([]run.UsageSnapshot, error)
	GroupRollups(ctx context.Context, q run.RollupQuery) ([]run.UsageRollup, error)
	Executions(ctx context.Context, id run.ID) ([]run.Execution, error)
	Artifacts(ctx context.Context, id run.ID) ([]run.Artifact, error)
	Questions(ctx context.Context, id run.ID) ([]run.Question, error)
	Events(ctx context.Context, q run.EventQuery) (run.EventPage, error)
	Metrics(ctx context.Context, id run.ID, q run.MetricQuery) ([]run.Series, error)
}

// Feed follows what is committed from now on. Its followers block until ctx ends
// or send fails, and call send from one goroutine at a time.
type Feed interface {
	// Follow sends every event after the cursor once and in order, history first.
	Follow(ctx context.Context, session run.SessionID, after int64, f run.EventFilter, send func([]*run.Event) error) error
	// FollowRuns sends a run each time it changed; only the newest state counts.
	FollowRuns(ctx context.Context, f run.RunFilter, send func(run.Run) error) error
	// FollowUsage sends what the active runs have used, at once and when it changed.
	FollowUsage(ctx context.Context, send func(run.UsageTotals) error) error
	// Deleted ends the followers of a session that is no more, with NOT_FOUND.
	Deleted(session run.SessionID)
}

// Agents lists the agent definitions, broken ones included.
type Agents interface {
	Agents(ctx context.Context) []AgentInfo
}

// Server describes the server itself, and what it prices by.
type Server interface {
	Info(ctx context.Context) ServerInfo
	// Models gives the prices of models that are in force now.
	Models(ctx context.Context) []ModelInfo
}

// AgentInfo is an agent definition as clients see it; empty fields show as null.
type AgentInfo struct {
	Name, Team, Role, Driver, Provider, Model, Stage string
	Problem                                          string // why it cannot be used; "" when it can
}

// ServerInfo is what clients may know of the server.
type ServerInfo struct {
	Version   string
	Replica   string
	Store     string // "sqlite" or "postgres"
	Sandboxes []SandboxInfo
	Prices    PriceInfo
}

// SandboxInfo is one sandbox backend.
type SandboxInfo struct {
	Backend   string
	Available bool
	Reason    string // why not, with the remedy; or a caveat
	Isolation string // "" or "UNSANDBOXED"
}

// Options is what the API stands on. All fields are needed except the limits.
type Options struct {
	Runs   Runs
	Reader Reader
	Feed   Feed
	Agents Agents
	Server Server
	Log    *slog.Logger

	MaxDepth      int // of a selection; 0: 12
	MaxComplexity int // fields that one operation may yield; 0: 1,000,000
}

// The limits of a document, apart from those in Options.
const (
	defaultDepth      = 12
	defaultComplexity = 1_000_000
	cachedDocuments   = 1_000
)

// API is the executable schema with its limits.
type API struct {
	exec     *executor.Executor
	resolver *resolver
}

// New makes the API.
func New(o Options) *API {
	if o.MaxDepth == 0 {
		o.MaxDepth = defaultDepth
	}
	if o.MaxComplexity == 0 {
		o.MaxComplexity = defaultComplexity
	}
	r := &resolver{Options: o}
	schema := generated.NewExecutableSchema(generated.Config{Resolvers: r, Complexity: complexity()})
	exec := executor.New(schema)
	exec.SetErrorPresenter(presenter(o.Log))
	exec.SetRecoverFunc(recoverer(o.Log))
	documents := lru.New[*ast.QueryDocument](cachedDocuments)
	exec.SetQueryCache(documents)
	exec.SetParserTokenLimit(maxTokens)
	exec.Use(preflight{valid: documents})
	exec.Use(extension.Introspection{})
	exec.Use(&limit{schema: schema, depth: o.MaxDepth, complexity: o.MaxComplexity})
	return &API{exec: exec, resolver: r}
}

// Executor runs operations against the schema.
func (a *API) Executor() graphql.GraphExecutor { return worded{a.exec} }

// Wait returns when every subscription's goroutine has ended; they end with
// the contexts of their operations.
func (a *API) Wait() { a.resolver.feeds.Wait() }
