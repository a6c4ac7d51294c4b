// Package cli is the command line's side of the API: a small GraphQL client, the
// watching of a run, and the commands that talk to a server.
//
// Guarantees:
//   - Follow gives every event after a cursor once and in order, whatever the
//     server and the network do in between, or says why it cannot.
//   - What programs and agents wrote is printed to a terminal with its control
//     sequences made harmless, and to anything else as it is.
//   - An error is one line for the user: what was wrong, with which value, and
//     what to do.
//   - With --json stdout holds JSON and nothing else, with the API's field names.
package cli
