//go:build !race

package guest

// raceEnabled says that the race detector slows everything down.
const raceEnabled = false
