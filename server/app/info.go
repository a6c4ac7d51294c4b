package app

import (
	"context"
	"time"

	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/meter/pricebook"
	"github.com/weirhq/weir/runtime/sandbox"
)

// catalog shows the agents to the API.
type catalog struct{ set *agent.Set }

// Agents implements graph.Agents: the usable ones, then the broken files.
func (c catalog) Agents(context.Context) []graph.AgentInfo {
	var list []graph.AgentInfo
	for _, d := range c.set.List() {
		info := graph.AgentInfo{
			Name: d.Name, Team: d.Team, Role: d.Role, Driver: d.Driver, Provider: d.Provider, Model: d.Model, Stage: d.Name,
		}
		if d.Stage != nil {
			info.Stage = *d.Stage
		}
		list = append(list, info)
	}
	for _, p := range c.set.Problems() {
		if !p.Unusable {
			continue
		}
		name := p.Name
		if name == "" {
			name = p.File
		}
		list = append(list, graph.AgentInfo{Name: name, Problem: p.String()})
	}
	return list
}

// about shows the server to the API.
type about struct {
	replica   string
	store     string
	sandboxes []sandbox.Status
	prices    *pricebook.Live
}

// Info implements graph.Server.
func (a about) Info(context.Context) graph.ServerInfo {
	info := graph.ServerInfo{Version: Version(), Replica: a.replica, Store: a.store}
	for _, s := range a.sandboxes {
		info.Sandboxes = append(info.Sandboxes, graph.SandboxInfo{
			Backend: s.Backend, Available: s.Available, Reason: s.Reason, Isolation: s.Isolation,
		})
	}
	book := a.prices.Book().Summary()
	info.Prices = graph.PriceInfo{Files: book.Files, Rows: book.Rows, Models: book.Models, Newest: book.Newest, Problem: a.prices.Problem()}
	return info
}

// Models implements graph.Server.
func (a about) Models(context.Context) []graph.ModelInfo {
	now := time.Now()
	book := a.prices.Book()
	var list []graph.ModelInfo
	for _, r := range book.InForce(now) {
		if !r.IsCompute() {
			list = append(list, modelInfo(book, r, now))
		}
	}
	return list
}
