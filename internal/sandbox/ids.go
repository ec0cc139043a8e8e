package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
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
func BoxID() (int, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("choose id: %w", err)
	}
	return firstBoxID + int(binary.LittleEndian.Uint32(b[:])%boxIDs), nil
}
