//go:build linux

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/testenv"
)

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func create(t testing.TB, s *Store, rec api.Sandbox) *Folder {
	t.Helper()
	f, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func list(t testing.TB, s *Store) []Entry {
	t.Helper()
	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func ids(entries []Entry) (ids []string) {
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestStateDir(t *testing.T) {
	own := t.TempDir()
	for _, c := range []struct {
		env  map[string]string
		uid  int
		want string
	}{
		{nil, 0, "/run/caisson"},
		{map[string]string{"CAISSON_STATE": "/x/../y"}, 0, "/y"},
		{map[string]string{"CAISSON_STATE": "x"}, 0, ""},
		{map[string]string{"XDG_RUNTIME_DIR": own, "HOME": "/h"}, os.Getuid() + 1, "/h/.local/state/caisson"}, // somebody else's
		{map[string]string{"XDG_RUNTIME_DIR": "rel", "XDG_STATE_HOME": "/s"}, 7, "/s/caisson"},
		{map[string]string{"XDG_STATE_HOME": "rel", "HOME": "/h"}, 7, "/h/.local/state/caisson"},
		{map[string]string{"HOME": ""}, 7, ""},
	} {
		got, err := StateDir(func(k string) string { return c.env[k] }, c.uid)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("StateDir(%v, %d) = %q, %v, want %q", c.env, c.uid, got, err, c.want)
		}
	}
	if os.Getuid() != 0 {
		got, err := StateDir(func(k string) string { return map[string]string{"XDG_RUNTIME_DIR": own}[k] }, os.Getuid())
		if err != nil || got != own+"/caisson" {
			t.Errorf("StateDir = %q, %v", got, err)
		}
	}
}

func TestOpenRefusesWhatOthersWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	for _, mode := range []fs.FileMode{0o720, 0o702, 0o777 | fs.ModeSticky} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil {
			t.Errorf("Open took a folder of mode %v", mode)
		}
	}
}

func TestOpenRefusesFolderOfSomebodyElse(t *testing.T) {
	testenv.Need(t, "root")
	dir := testenv.UserDir(t, 12345, 12345)
	var e *api.Error
	if _, err := Open(dir); !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("Open = %v, want an error with a hint", err)
	}
}

func TestCreateListRemove(t *testing.T) {
	s := open(t)
	rec := api.Sandbox{
		Name: "one", Tier: api.TierProcess, Image: "host", State: api.StateCreating,
		Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Command: []string{"sh", "-c", "a\nb \xff"}, Policy: "sha256:00",
		Points: []api.Point{{Name: "network", Strength: api.StrengthHard}},
	}
	f := create(t, s, rec)
	if !validName(f.ID()) || len(f.ID()) != 10 || f.Path() != filepath.Join(s.Path(), "boxes", f.ID()) {
		t.Errorf("ID %q, Path %q", f.ID(), f.Path())
	}
	if err := f.Update(func(r *api.Sandbox) { r.State, r.InitPID, r.ID, r.Name = api.StateRunning, 77, "x", "y" }); err != nil {
		t.Fatal(err)
	}
	want := rec
	want.ID, want.State, want.InitPID = f.ID(), api.StateRunning, 77
	want.Command = []string{"sh", "-c", "a\nb �"} // JSON holds text
	got := list(t, s)
	if diff := cmp.Diff([]Entry{{Sandbox: want, Dir: f.Path(), Alive: true}}, got); diff != "" {
		t.Error(diff)
	}
	checkModes(t, s.Path())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s); len(got) != 1 || got[0].Alive {
		t.Errorf("after Close: %+v, want one that is not alive", got)
	}
	again, err := s.Acquire(f.ID())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again.Record()); diff != "" {
		t.Error(diff)
	}
	if err := again.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s); len(got) != 0 {
		t.Errorf("after Remove: %+v", got)
	}
	if names, _ := os.ReadDir(filepath.Join(s.Path(), "boxes")); len(names) != 0 {
		t.Errorf("Remove left %v", names)
	}
	for what, err := range map[string]error{
		"Update": f.Update(func(*api.Sandbox) {}),
		"Append": f.Append(api.Event{}),
		"Remove": f.Remove(),
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s of a closed folder: %v", what, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// checkModes: nobody but the owner gets in.
func checkModes(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNamesAndIDs(t *testing.T) {
	s := open(t)
	for _, bad := range []string{"-a", "A", "a/b", "..", ".", "a b", "a\n", "ä", strings.Repeat("a", 64), "a.b", "a_b"} {
		if _, err := s.Create(api.Sandbox{Name: bad}); err == nil {
			t.Errorf("the name %q was taken", bad)
		}
		if _, err := s.Create(api.Sandbox{ID: bad}); err == nil {
			t.Errorf("the id %q was taken", bad)
		}
	}
	if got := list(t, s); len(got) != 0 {
		t.Fatalf("refused creations left %v", ids(got))
	}
	for _, good := range []string{"a", "0", "a-", strings.Repeat("a", 63)} {
		create(t, s, api.Sandbox{Name: good})
	}
	if _, err := s.Create(api.Sandbox{Name: "a"}); err == nil {
		t.Error("a name was given twice")
	}
	f := create(t, s, api.Sandbox{ID: "mine"})
	if _, err := s.Create(api.Sandbox{ID: "mine"}); err == nil {
		t.Error("an id was given twice")
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	create(t, s, api.Sandbox{ID: "mine"})
}

func TestOneNameOneWinner(t *testing.T) {
	s := open(t)
	var won sync.Map
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			f, err := s.Create(api.Sandbox{Name: "wanted"})
			if err == nil {
				won.Store(f.ID(), f)
			}
		})
	}
	all.Wait()
	n := 0
	won.Range(func(_, f any) bool { n++; _ = f.(*Folder).Close(); return true })
	if n != 1 || len(list(t, s)) != 1 {
		t.Errorf("%d creations won, %d folders", n, len(list(t, s)))
	}
}

func TestFind(t *testing.T) {
	s := open(t)
	create(t, s, api.Sandbox{ID: "abc1", Name: "first"})
	create(t, s, api.Sandbox{ID: "abc2", Name: "abc"})
	create(t, s, api.Sandbox{ID: "abc22", Name: "z"})
	for what, want := range map[string]string{"abc1": "abc1", "first": "abc1", "abc": "abc2", "abc2": "abc2", "abc22": "abc22", "z": "abc22"} {
		if e, err := s.Find(what); err != nil || e.ID != want {
			t.Errorf("Find(%q) = %q, %v, want %q", what, e.ID, err, want)
		}
	}
	for what, code := range map[string]api.Code{"ab": api.CodeUsage, "": api.CodeNotFound, "nope": api.CodeNotFound, "../boxes": api.CodeNotFound, "firs": api.CodeNotFound} {
		var e *api.Error
		if _, err := s.Find(what); !errors.As(err, &e) || e.Code != code {
			t.Errorf("Find(%q): %v, want code %s", what, err, code)
		}
	}
}

func TestLongCommandIsCut(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{Command: []string{"echo", strings.Repeat("x", 1<<20), "y"}})
	got := list(t, s)[0]
	if got.Err != nil || len(got.Command) != 2 || len(got.Command[1]) > maxCommand+3 {
		t.Errorf("error %v, %d arguments", got.Err, len(got.Command))
	}
	if err := f.Update(func(r *api.Sandbox) { r.Command = slices.Repeat([]string{""}, 1<<20) }); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s)[0]; got.Err != nil || len(got.Command) > maxCommand {
		t.Errorf("error %v, %d arguments", got.Err, len(got.Command))
	}
}

func TestHostileFoldersAreEntriesWithAnError(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string) error{
		"truncated record": func(_ *testing.T, dir string) error { return os.Truncate(dir+"/record.json", 10) },
		"empty record":     func(_ *testing.T, dir string) error { return os.Truncate(dir+"/record.json", 0) },
		"huge record":      func(_ *testing.T, dir string) error { return os.Truncate(dir+"/record.json", 1<<40) },
		"no record":        func(_ *testing.T, dir string) error { return os.Remove(dir + "/record.json") },
		"record of another": func(_ *testing.T, dir string) error {
			return os.WriteFile(dir+"/record.json", []byte(`{"id":"other"}`), 0o600)
		},
		"record with a bad name": func(_ *testing.T, dir string) error {
			return os.WriteFile(dir+"/record.json", []byte(`{"id":"victim","name":"a\nb"}`), 0o600)
		},
		"record is a folder": func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(dir+"/record.json"), os.Mkdir(dir+"/record.json", 0o700))
		},
		"record is a link": func(_ *testing.T, dir string) error {
			return errors.Join(os.Rename(dir+"/record.json", dir+"/r"), os.Symlink("r", dir+"/record.json"))
		},
		"record is a pipe": func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(dir+"/record.json"), mkfifo(dir+"/record.json"))
		},
		"no lock":        func(_ *testing.T, dir string) error { return os.Remove(dir + "/lock") },
		"lock is a pipe": func(_ *testing.T, dir string) error { return errors.Join(os.Remove(dir+"/lock"), mkfifo(dir+"/lock")) },
		"lock is a link": func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(dir+"/lock"), os.Symlink("/dev/null", dir+"/lock"))
		},
		"folder is a link": func(t *testing.T, dir string) error {
			return errors.Join(os.Rename(dir, t.TempDir()+"/moved"), os.Symlink(t.TempDir(), dir))
		},
		"folder is a file": func(_ *testing.T, dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			create(t, s, api.Sandbox{ID: "good", Created: time.Unix(1, 0)})
			victim := create(t, s, api.Sandbox{ID: "victim"})
			if err := victim.Close(); err != nil {
				t.Fatal(err)
			}
			if err := spoil(t, victim.Path()); err != nil {
				t.Fatal(err)
			}
			got := list(t, s)
			for _, e := range got {
				if e.ID == "good" && (e.Err != nil || !e.Alive) || e.ID == "victim" && (e.Err == nil || e.Alive) {
					t.Errorf("%+v", e)
				}
			}
			if len(got) != 2 {
				t.Errorf("listed %v", ids(got))
			}
			if e, err := s.Find("victim"); err != nil || e.Err == nil {
				t.Errorf("Find = %+v, %v", e, err)
			}
			for _, err := range s.Events("victim", 0) {
				_ = err // must only end
			}
			if err := s.Sweep(t.Context(), func(Entry) error { return nil }); err != nil && !strings.HasPrefix(name, "lock is") {
				t.Errorf("Sweep: %v", err)
			}
		})
	}
}

func TestStrangeNamesInBoxesAreNotListed(t *testing.T) {
	s := open(t)
	for _, name := range []string{"UPPER", "a\nb", ".new-a-b", ".hidden", "-"} {
		if err := os.Mkdir(filepath.Join(s.Path(), "boxes", name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, s); len(got) != 0 {
		t.Errorf("listed %q", ids(got))
	}
}
