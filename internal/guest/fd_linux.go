package guest

import "github.com/caisson-dev/caisson/internal/linux"

// FromFD makes a Stream of a connected SOCK_STREAM unix socket, which it takes
// over, also on error. It carries descriptors, three at a time at most, and reads nothing
// ahead: ReadMessage may be used before Open or Serve.
func FromFD(fd int) (Stream, error) {
	s, err := linux.NewSocket(fd, 3)
	if err != nil {
		return Stream{}, err
	}
	return FromSocket(s), nil
}

// FromSocket makes a Stream of a socket, which is then the stream's.
func FromSocket(s *linux.Socket) Stream {
	return Stream{
		ReadWriteCloser:    s,
		SendDescriptors:    s.SendDescriptors,
		ReceiveDescriptors: s.ReceiveDescriptors,
	}
}
