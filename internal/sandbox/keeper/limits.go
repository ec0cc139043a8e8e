//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/api"
)

// dyingTime bounds the wait for the rest of a box whose guest is gone. The kernel
// frees the memory of every program first: millions of mappings take seconds.
const dyingTime = 10 * time.Second

var errOutput = errors.New("output limit")

// ending says why a command has no exit of its own.
func (k *keeper) ending(err error) (int, error) {
	if errors.Is(err, errOutput) {
		return api.ExitKilled, k.limit("output", "output: "+size(k.o.plan.Limits.Output)+" limit",
			"raise limits.output, or write less to standard output")
	}
	ctx, cancel := context.WithTimeout(context.Background(), dyingTime)
	defer cancel()
	exit, e := k.s.Box.Wait(ctx)
	if e != nil {
		return api.ExitFailed, fmt.Errorf("lost the sandbox: %w", err)
	}
	switch exit.Limit {
	case "wall":
		return api.ExitTimeout, k.limit("wall", fmt.Sprintf("wall time: %v limit", k.o.plan.Lifetime.Wall),
			"raise lifetime.wall or --timeout")
	case "memory":
		return api.ExitKilled, nil // judge says it
	}
	var told *api.Error
	if errors.As(err, &told) {
		return api.ExitFailed, told
	}
	return api.ExitFailed, &api.Error{
		Code: api.CodeHost, Message: "the sandbox ended before its command: " + exit.Reason,
	}
}

// judge ends the box and corrects how its command seems to have ended by what
// the kernel counted: a program that was killed for its memory looks like any
// other that was killed.
func (k *keeper) judge(code int, err error) (int, error) {
	exit, e := k.s.Stop()
	if e != nil {
		return api.ExitFailed, errors.Join(err, e)
	}
	if slices.Contains(exit.Reached, "pids") {
		message := fmt.Sprintf("pids: the limit of %d processes and threads was reached, and no more could be started", k.o.plan.Limits.Pids)
		k.o.Warn(message + "; raise limits.pids or --pids")
		if e := k.limitEvent("pids", message); e != nil {
			return api.ExitFailed, errors.Join(err, e)
		}
	}
	var said *api.Error
	if slices.Contains(exit.Reached, "memory") && !(errors.As(err, &said) && said.Code == api.CodeLimit) {
		return api.ExitKilled, k.limit("memory",
			"memory: "+size(k.o.plan.Limits.Memory)+" limit", "raise limits.memory or --memory")
	}
	return code, err
}

// limit records that a limit ended the command, and returns the error for it.
func (k *keeper) limit(name, message, hint string) error {
	return errors.Join(&api.Error{Code: api.CodeLimit, Message: message, Hint: hint}, k.limitEvent(name, message))
}

func (k *keeper) limitEvent(name, message string) error {
	return k.s.Record(api.Event{Kind: api.EventLimit, Data: map[string]string{"limit": name}, Message: message})
}

// size writes a size as a person does: "4 GiB".
func size(b api.Bytes) string {
	s := b.String()
	if i := strings.IndexAny(s, "KMGT"); i > 0 {
		return s[:i] + " " + s[i:]
	}
	return s + " bytes"
}
