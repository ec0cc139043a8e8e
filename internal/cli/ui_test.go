package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
)

func TestWordsOfOurs(t *testing.T) {
	const nasty = "a\nb\x1b[2J"
	for name, c := range map[string]struct {
		say  func(u *ui)
		json bool
		want string
	}{
		"failure":         {func(u *ui) { u.fail(&api.Error{Code: "x", Message: nasty, Hint: nasty}) }, false, "caisson: a\\nb\\x1b[2J\ncaisson: hint: a\\nb\\x1b[2J\n"},
		"without a hint":  {func(u *ui) { u.fail(&api.Error{Code: "x", Message: "m"}) }, false, "caisson: m\n"},
		"failure as JSON": {func(u *ui) { u.fail(&api.Error{Code: "x", Message: nasty, Hint: "<h>"}) }, true, `{"code":"x","message":"a\nb\u001b[2J","hint":"<h>"}` + "\n"},
		"warning":         {func(u *ui) { u.warn(nasty) }, false, "caisson: a\\nb\\x1b[2J\n"},
		"warning as JSON": {func(u *ui) { u.warn(nasty) }, true, `{"warning":"a\nb\u001b[2J"}` + "\n"},
	} {
		var out, errs bytes.Buffer
		c.say(&ui{out: &out, err: &errs, json: c.json})
		if diff := cmp.Diff(c.want, errs.String()); diff != "" || out.Len() > 0 {
			t.Errorf("%s: standard output %q, standard error:\n%s", name, &out, diff)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAnswerThatCannotBeWritten(t *testing.T) {
	u := &ui{out: full{}, err: &bytes.Buffer{}}
	err := u.print(nil, func(w *bytes.Buffer) { w.WriteString("answer") })
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeHost {
		t.Errorf("error %v, want one of the host", err)
	}
}
