package policy

import "testing"

func BenchmarkBase(b *testing.B) {
	for range b.N {
		baseFile()
	}
}
