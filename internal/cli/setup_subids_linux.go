package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// Ranges of subordinate ids, as useradd gives them: SUB_UID_MIN, SUB_UID_COUNT
// and SUB_UID_MAX of login.defs(5).
const (
	subidsFirst = 100000
	subidsCount = 65536
	subidsMax   = 600100000
)

// needsSubids gives the user a range of ids, where it has none: images need one
// for the ids of their files.
func (h *setupHost) needsSubids() (*change, error) {
	if h.user == "" {
		return nil, nil
	}
	next := uint64(subidsFirst)
	var lacks []string
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		has := false
		for line := range strings.Lines(h.text(file)) {
			f := strings.Split(strings.TrimSpace(line), ":")
			if len(f) != 3 {
				continue
			}
			has = has || f[0] == h.user || f[0] == strconv.Itoa(h.uid)
			first, err1 := strconv.ParseUint(f[1], 10, 32)
			count, err2 := strconv.ParseUint(f[2], 10, 32)
			if err1 == nil && err2 == nil {
				next = max(next, first+count)
			}
		}
		if !has {
			lacks = append(lacks, file)
		}
	}
	if len(lacks) == 0 {
		return nil, nil
	}
	if next+subidsCount > subidsMax {
		return nil, &api.Error{Code: api.CodeHost, Message: "no range of subordinate ids is free in /etc/subuid and /etc/subgid", Hint: "remove ranges of users that are gone"}
	}
	ids := fmt.Sprintf("%d-%d", next, next+subidsCount-1)
	was, err := h.marked(subidsFile)
	if err != nil {
		return nil, err
	}
	record := was
	if record == "" {
		record = setupMark
	}
	c := &change{Name: "subids", Why: "give " + h.user + " subordinate ids, for the images of sandboxes"}
	add := append([]string(nil), h.usermod...)
	for _, file := range lacks {
		kind := strings.TrimPrefix(file, "/etc/sub") // uid or gid
		add = append(add, "--add-sub"+kind+"s", ids)
		record += kind + " " + h.user + " " + ids + "\n"
	}
	// Recorded first: what is not recorded cannot be undone.
	c.acts = []act{{write: subidsFile, text: record}, {run: append(add, h.user)}}
	c.undo = []act{{remove: subidsFile}}
	if was != "" {
		c.undo = []act{{write: subidsFile, text: was}}
	}
	return c, nil
}

// undoSubids takes back the ranges that were recorded.
func (h *setupHost) undoSubids(text string) *change {
	c := &change{Name: "subids", Why: "take back the subordinate ids that setup gave"}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 3 && (f[0] == "uid" || f[0] == "gid") {
			run := append(append([]string(nil), h.usermod...), "--del-sub"+f[0]+"s", f[2], f[1])
			c.acts = append(c.acts, act{run: run})
		}
	}
	return c
}
