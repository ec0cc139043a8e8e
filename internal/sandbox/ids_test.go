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

// A map without the ids of boxes is that of a rootless container.
func TestMapsBoxIDs(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n":              true,
		"0 1000 1\n1 100000 65536\n":                      false,
		"0 1000 1\n":                                      false,
		"0 100000 4000000000\n":                           true,
		"0 0 1\n1879048192 1879048192 268435456\n":        true,
		"0 0 1\n1879048192 1879048192 268435455\n":        false,
		"0 0 1\n1879048193 1879048193 268435456\nrubbish": false,
		"": false,
	} {
		if got := mapsBoxIDs(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
