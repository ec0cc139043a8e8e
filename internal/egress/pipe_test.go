package egress

import "testing"

// The contract of a PacketEndpoint is tested in package egresstest; this is
// what a Pipe has beyond it.
func TestPipeCountsWhatItDrops(t *testing.T) {
	a, b := Pipe(100)
	for range pipePackets + 3 {
		if err := a.WritePacket([]byte("packet")); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Dropped(); n != 3 {
		t.Errorf("%d dropped for want of room, want 3", n)
	}
	if err := b.WritePacket(make([]byte, 50)); err != nil {
		t.Fatal(err)
	}
	if err := b.WritePacket(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if n, err := a.ReadPacket(make([]byte, 10)); n != 10 || err != nil || a.Dropped() != 1 {
		t.Errorf("read %d, %v, %d dropped; want 10 and 1 dropped", n, err, a.Dropped())
	}
	if err := a.WritePacket(nil); err == nil {
		t.Error("an empty packet was taken")
	}
}

func BenchmarkPipe(b *testing.B) {
	x, y := Pipe(1500)
	p, q := make([]byte, 1500), make([]byte, 1500)
	b.SetBytes(1500)
	for b.Loop() {
		if err := x.WritePacket(p); err != nil {
			b.Fatal(err)
		}
		if _, err := y.ReadPacket(q); err != nil {
			b.Fatal(err)
		}
	}
}
