//go:build linux && !amd64 && !arm64

package stage

// No filter is made for this architecture, so SeccompFilter refuses.
var (
	filterBox    = []packed{}
	filterNested = []packed{}
	filterBare   = []packed{}
)
