package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// The host ids of boxes that root starts: above every range that
// distributions, systemd (nspawn ends at 0x6fffffff) and subuid files give out, and
// below the sign bit, which some programs cannot take.
const (
	firstBoxID = 0x7000_0000
	boxIDs     = 1 << 28
)

// BoxID returns an unprivileged host id for a box of root's. It is random: of
// 500 boxes alive two share one with a probability of 1 in 2,000, and then they share
// kernel quotas, nothing that they could reach each other by.
//
// In a user namespace, as rootless containers are, those ids do not exist: there
// root is refused.
func BoxID() (int, error) {
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		if b, err := os.ReadFile(file); err == nil && !mapsBoxIDs(string(b)) {
			return 0, &api.Error{
				Code: api.CodeHost, Message: "root is only root of a container here, in whose user namespace the ids of sandboxes do not exist",
				Hint: "start Caisson as an ordinary user, in the container or outside of it",
			}
		}
	}
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("choose id: %w", err)
	}
	return firstBoxID + int(binary.LittleEndian.Uint32(b[:])%boxIDs), nil
}

// mapsBoxIDs reports whether a line of a user namespace's map has all ids of boxes.
func mapsBoxIDs(text string) bool {
	for line := range strings.Lines(text) {
		var first, outside, count int64
		_, err := fmt.Sscan(line, &first, &outside, &count)
		if err == nil && first <= firstBoxID && first+count >= firstBoxID+boxIDs {
			return true
		}
	}
	return false
}
