package guest

// ring is a queue of bytes that grows up to what is put in and never beyond the
// limit that its user keeps to.
type ring struct {
	buf  []byte
	head int // of the first byte
	size int
}

// put appends p, growing towards limit.
func (r *ring) put(p []byte, limit int) {
	if need := r.size + len(p); need > len(r.buf) {
		r.grow(min(max(need, 2*len(r.buf), 4<<10), max(limit, need)))
	}
	if len(p) == 0 {
		return
	}
	tail := (r.head + r.size) % len(r.buf)
	n := copy(r.buf[tail:], p)
	copy(r.buf, p[n:])
	r.size += len(p)
}

func (r *ring) grow(size int) {
	buf := make([]byte, size)
	n := r.peek(buf)
	r.buf, r.head, r.size = buf, 0, n
}

// peek copies the first bytes to p.
func (r *ring) peek(p []byte) int {
	n := min(len(p), r.size)
	if n == 0 {
		return 0
	}
	m := copy(p[:n], r.buf[r.head:])
	copy(p[m:n], r.buf)
	return n
}

// take moves the first bytes to p.
func (r *ring) take(p []byte) int {
	n := r.peek(p)
	r.size -= n
	if r.size == 0 {
		r.head = 0
	} else {
		r.head = (r.head + n) % len(r.buf)
	}
	return n
}
