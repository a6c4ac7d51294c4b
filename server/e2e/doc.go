// Package e2e drives the built weir binary as its users do: a real process, real
// databases, GraphQL over HTTP and WebSocket, and kill -9. It holds tests only.
package e2e
