package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/policy"
)

// exit ends a call with a code when all that need be said was said.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// failure is an error that came with its exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// exitCode is the code of a failed call of cmd; the package comment has the rule.
func exitCode(cmd *cobra.Command, err error) int {
	var f *failure
	var e *api.Error
	switch {
	case errors.As(err, &f):
		return f.code
	case cmd != nil && cmd.Name() == "run":
		return api.ExitFailed
	case errors.As(err, &e) && e.Code == api.CodeUsage:
		return 2
	default:
		return 1
	}
}

// asErrors makes errors for people of an error that may be several: what went
// wrong while something else did must not be lost.
func asErrors(err error) (list []*api.Error) {
	var f *failure
	if errors.As(err, &f) {
		err = f.err
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []*api.Error{asError(err)}
	}
	for _, e := range several.Unwrap() {
		list = append(list, asErrors(e)...)
	}
	return list
}

// asError makes an error for people of any error. One that nobody prepared for
// people is a defect of ours, and says so.
func asError(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	for _, full := range []struct {
		no  syscall.Errno
		fix string
	}{
		{syscall.EMFILE, "raise the limit of open files: ulimit -n 1024"},
		{syscall.ENFILE, "the host has no more open files to give: raise fs.file-max"},
		{syscall.ENOSPC, "a file system is full: make room, or set CAISSON_STATE and XDG_CACHE_HOME to folders where there is some"},
		{syscall.EROFS, "set CAISSON_STATE and XDG_CACHE_HOME to folders that can be written"},
	} {
		if errors.Is(err, full.no) {
			return &api.Error{Code: api.CodeHost, Message: err.Error(), Hint: full.fix}
		}
	}
	return &api.Error{
		Code:    api.CodeInternal,
		Message: err.Error(),
		Hint:    "nobody expected this error; please report it with the command that led to it",
	}
}

// usage is an error in the words of the call.
func usage(hint, format string, args ...any) *api.Error {
	return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// unknownWord refuses a word that is none of a closed list.
func unknownWord(kind, word string, list []string) *api.Error {
	hint := "use one of " + strings.Join(list, ", ")
	if near := nearest(word, list); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	return usage(hint, "there is no %s %s", kind, quote(word))
}

// hostError is a failure of the machine or its file system while doing what.
func hostError(what, hint string, err error) error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	return &api.Error{Code: api.CodeHost, Message: what + ": " + err.Error(), Hint: hint}
}

// helpHint points to the help of cmd.
func helpHint(cmd *cobra.Command) string { return cmd.CommandPath() + " --help shows what it takes" }

// prefix names cmd at the start of a message, without the program: the line
// starts with that.
func prefix(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	if path == "" {
		return ""
	}
	return path + ": "
}

// unknownCommand refuses a name that cmd does not hold.
func unknownCommand(cmd *cobra.Command, name string) *api.Error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := cmd.CommandPath() + " --help lists the commands"
	if near := nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s %s?", cmd.CommandPath(), near)
	}
	return usage(hint, "%sunknown command %s", prefix(cmd), quote(name))
}

// flagError turns what the flag library says into our words.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0]) // the flags are those of a command that is not there
	}
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		return usage(helpHint(cmd), "%s needs a value", flagName(missing.GetFlag(), missing.GetSpecifiedName()))
	case errors.As(err, &invalid):
		return usage(helpHint(cmd), "--%s %s: %s", invalid.GetFlag().Name, quote(invalid.GetValue()), invalidReason(invalid))
	default:
		return usage(helpHint(cmd), "%v", err)
	}
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	if err.GetSpecifiedShortnames() != "" {
		return usage(helpHint(cmd), "%sunknown flag %s", prefix(cmd), quote("-"+err.GetSpecifiedName()))
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	hint := helpHint(cmd)
	if near := nearest(err.GetSpecifiedName(), names); near != "" {
		hint = fmt.Sprintf("did you mean --%s?", near)
	}
	return usage(hint, "%sunknown flag %s", prefix(cmd), quote("--"+err.GetSpecifiedName()))
}

// flagName is how the caller wrote the flag.
func flagName(f *pflag.Flag, written string) string {
	if f != nil && written == f.Shorthand {
		return "-" + written
	}
	return "--" + written
}

// invalidReason takes the library's wording out of the way of ours.
func invalidReason(err *pflag.InvalidValueError) string {
	switch err.GetFlag().Value.Type() {
	case "int64":
		return "not a whole number"
	case "float64":
		return "not a number"
	case "bool":
		return "not true or false"
	}
	reason := err.Unwrap().Error()
	return strings.TrimSuffix(reason, ".")
}

// nearest is the name of list that word most likely stands for, or "": one
// that differs in at most a third of its letters, or that word begins.
func nearest(word string, list []string) string {
	best, bestDistance := "", 1+max(len(word), 3)/3
	if len(word) > 64 {
		return "" // nobody mistyped that
	}
	for _, name := range list {
		d := policy.Distance(word, name)
		if len(word) > 1 && strings.HasPrefix(name, word) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}
