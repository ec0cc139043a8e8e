// Package api holds the types that Caisson shows to the outside: what a policy
// says, what a decision was, what happened, what a sandbox is. They are what
// the command line prints with --json, what the service sends, and what an
// event log holds. It imports the standard library only, so a client takes
// nothing else in.
//
// Deny is the zero value of every type here: a field that was never set grants
// nothing.
package api
