// Package egress is the wire and the gateway: the only way out of a sandbox.
// This file is the contract between its parts, so that each can be built and
// tested alone.
package egress

import (
	"context"
	"io"
	"net/netip"

	"github.com/caisson-dev/caisson/api"
)

// PacketEndpoint is the outer end of a wire: whole IP packets in and out, no
// link-layer header. A driver supplies it; the gateway's stack sits on it, and
// later a switch may join two of them. Read and Write may be called
// concurrently with each other and with Close, each by one goroutine at a time.
// egresstest.Endpoint is this contract as tests; Pipe is one in memory.
type PacketEndpoint interface {
	// ReadPacket reads one packet that the box sent into p and returns its
	// length. A packet longer than p is dropped and counted, never cut. It returns io.EOF
	// after Close or when the box is gone.
	ReadPacket(p []byte) (int, error)
	// WritePacket gives one packet to the box. It may drop a packet where a link
	// would, and says so only by its count; it does not wait for a reader. A packet
	// longer than MTU is an error, and so is one after Close.
	WritePacket(p []byte) error
	// MTU is the largest packet in bytes, constant.
	MTU() int
	io.Closer
}

// Authority is the one name that a connection is about, normalised once at the
// door: lower case, no final dot, ASCII. SNI, CONNECT, Host, :authority and
// absolute URIs must equal it.
type Authority struct {
	Host string     // name; empty for a connection to an address by a CIDR rule
	Addr netip.Addr // of a connection to an address
	Port uint16
	UDP  bool
}

// Request is one dial that the gateway asks of the dialer. Rule names what
// allowed it; the dialer classes every resolved address against it.
type Request struct {
	Authority Authority
	Rule      string
	Private   bool           // the rule allows private addresses
	To        netip.AddrPort // set: a named host service, dialled as it is
}

// Dialer resolves, classes and connects for the gateway, which can do none of
// these. egresstest.Dialer is this contract as tests. The zero Request, and one without a
// Rule, is refused. A name of which any address is in a refused class is refused. A
// refusal is a Decision with ActionDeny; err is for what failed (unreachable, timeout,
// no such name). conn is not nil only when the decision allows and err is nil.
type Dialer interface {
	Dial(ctx context.Context, r Request) (conn io.ReadWriteCloser, d api.Decision, err error)
}

// Injector puts a credential into requests and takes it out of answers. The
// gateway owns the connection; the injector sees one opened request at a time.
// It is declared here, by its user; package credential implements it and the
// wiring joins them.
type Injector interface {
	// Bound reports whether the credential may be used for the request, and by
	// which binding. A false answer denies: nothing is injected.
	Bound(a Authority, method, path string) (binding string, ok bool)
	// Apply strips what the client sent in the credential's place and injects the
	// secret, last, into header. It is called only over verified TLS.
	Apply(ctx context.Context, a Authority, method, path string, header map[string][]string) error
	// Placeholder is what stands in the box instead; it is random per sandbox.
	Placeholder() string
	// Scrub removes the secret from an answer's header and returns a reader that removes it from its body.
	Scrub(header map[string][]string, body io.ReadCloser) io.ReadCloser
}
