package graph

import (
	"context"
	"encoding/json"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

func (r mutationResolver) CreateSession(ctx context.Context, input *model.CreateSessionInput) (*model.Session, error) {
	title := ""
	if input != nil && input.Title != nil {
		title = *input.Title
	}
	if err := plain("title", title); err != nil {
		return nil, err
	}
	s, err := r.Runs.CreateSession(ctx, title)
	if err != nil {
		return nil, err
	}
	return toSession(s), nil
}

func (r mutationResolver) StartRun(ctx context.Context, input model.StartRunInput) (*model.Run, error) {
	req, err := startRequest(input)
	if err != nil {
		return nil, err
	}
	v, err := r.Runs.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return toRun(v), nil
}

func (r mutationResolver) SendMessage(ctx context.Context, input model.SendMessageInput) (*model.Run, error) {
	req, err := messageRequest(input)
	if err != nil {
		return nil, err
	}
	v, err := r.Runs.Message(ctx, req)
	if err != nil {
		return nil, err
	}
	return toRun(v), nil
}

// AbortRun says ALREADY_ENDED for a run that was over when it was asked, also
// when an earlier abort had ended it; that one's times stay in the receipt.
func (r mutationResolver) AbortRun(ctx context.Context, id string, silent, wait *bool, reason *string) (*model.AbortReceipt, error) {
	rid, err := runID(id)
	if err != nil {
		return nil, err
	}
	if err := plain("reason", value(reason)); err != nil {
		return nil, err
	}
	receipt, live, err := r.Runs.Abort(ctx, run.AbortOrder{Run: rid, Silent: value(silent), Wait: value(wait), Reason: value(reason)})
	if err != nil {
		return nil, err
	}
	receipt.Run = rid
	if !live {
		receipt.Outcome = run.AbortAlready
	}
	return toReceipt(&receipt), nil
}

func (r mutationResolver) AnswerQuestion(ctx context.Context, input model.AnswerQuestionInput) (*model.Question, error) {
	if !run.ValidID("qst", input.ID) {
		return nil, run.Errorf(run.NotFound, "there is no question %s", show(input.ID))
	}
	q, err := r.Runs.Answer(ctx, input.ID, json.RawMessage(input.Answer))
	if err != nil {
		return nil, err
	}
	return toQuestion(q), nil
}

func (r mutationResolver) DeleteSession(ctx context.Context, id string) (string, error) {
	sid, err := sessionID(id)
	if err != nil {
		return "", err
	}
	if err := r.Runs.DeleteSession(ctx, sid); err != nil {
		return "", err
	}
	r.Feed.Deleted(sid)
	return id, nil
}
