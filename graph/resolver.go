package graph

import (
	"sync"

	"github.com/weirhq/weir/graph/generated"
)

// resolver is the root of all resolvers.
type resolver struct {
	Options
	feeds sync.WaitGroup // the goroutines of subscriptions
}

type (
	queryResolver        struct{ *resolver }
	mutationResolver     struct{ *resolver }
	subscriptionResolver struct{ *resolver }
	runResolver          struct{ *resolver }
	sessionResolver      struct{ *resolver }
	executionResolver    struct{ *resolver }
)

var _ generated.ResolverRoot = (*resolver)(nil)

func (r *resolver) Query() generated.QueryResolver               { return queryResolver{r} }
func (r *resolver) Mutation() generated.MutationResolver         { return mutationResolver{r} }
func (r *resolver) Subscription() generated.SubscriptionResolver { return subscriptionResolver{r} }
func (r *resolver) Run() generated.RunResolver                   { return runResolver{r} }
func (r *resolver) Session() generated.SessionResolver           { return sessionResolver{r} }
func (r *resolver) Execution() generated.ExecutionResolver       { return executionResolver{r} }
