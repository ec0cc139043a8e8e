//go:build !unix

package guest

// closeDescriptors has nothing to close: no transport here carries descriptors.
func closeDescriptors([]int) {}
