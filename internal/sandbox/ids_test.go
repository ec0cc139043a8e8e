package sandbox

import "testing"

func TestBoxIDIsInItsRange(t *testing.T) {
	seen := map[int]bool{}
	for range 1000 {
		id, err := BoxID()
		if err != nil {
			t.Fatal(err)
		}
		if id < firstBoxID || id >= firstBoxID+boxIDs {
			t.Fatalf("id %#x is out of range", id)
		}
		seen[id] = true
	}
	if len(seen) < 900 {
		t.Errorf("1,000 ids had %d values", len(seen))
	}
}
