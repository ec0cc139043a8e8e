//go:build linux

package filter

import (
	"golang.org/x/sys/unix"
)

const (
	typeMask = 0xf // SOCK_TYPE_MASK; SOCK_CLOEXEC and SOCK_NONBLOCK are above

	iptSetFirst = 64 // IPT_SO_SET_REPLACE and IP6T_SO_SET_REPLACE
	iptSetLast  = 65
	arptFirst   = 96 // ARPT_SO_SET_REPLACE
	ebtFirst    = 128
)

// socketRules say which sockets can be made, and which options reach code that
// no program of a box needs.
func socketRules() []Rule {
	noFamily := Errno(unix.EAFNOSUPPORT)
	noProtocol := Errno(unix.EPROTONOSUPPORT)
	usual := isIn(0, unix.AF_INET, unix.AF_INET6)
	return []Rule{
		{
			In: Box | Nested, Calls: "socket", Do: noFamily,
			Cases: []Case{
				// getifaddrs and net.Interfaces ask the kernel for the addresses of the box's own network.
				when(Allow, isIn(0, unix.AF_NETLINK), maskedIn(1, typeMask, unix.SOCK_RAW, unix.SOCK_DGRAM), isIn(2, unix.NETLINK_ROUTE)),
				when(noProtocol, isIn(0, unix.AF_NETLINK)),
				// SOCK_PACKET of any family is a packet socket; raw ones of AF_UNIX do no harm, but nobody asks for one.
				when(eperm, maskedIn(1, typeMask, unix.SOCK_RAW, unix.SOCK_PACKET)),
				when(Allow, isIn(0, unix.AF_UNIX)),
				// ICMP and ICMPv6 with datagrams are ping. Not MPTCP, SCTP, SMC, L2TP, UDP-Lite:
				// the wire carries none of them.
				when(Allow, usual, isIn(2, unix.IPPROTO_IP, unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6)),
				when(noProtocol, usual),
			},
			Why: "VSOCK, PACKET, ALG, KEY, XDP, BLUETOOTH, RDS, TIPC, CAN, NFC and the rest are ways to the host or code that nobody attends to",
		},
		{
			In: Bare, Calls: "socket connect", Do: noFamily,
			Why: "without a network namespace every socket is the host's: its loopback, its abstract names, docker.sock and the session bus",
		},
		{
			In: Box | Nested, Calls: "socketpair", Do: noFamily,
			Cases: []Case{
				when(eperm, maskedIn(1, typeMask, unix.SOCK_RAW)),
				when(Allow, isIn(0, unix.AF_UNIX)),
			},
		},
		{
			In: Bare, Calls: "socketpair", Do: noFamily,
			Cases: []Case{when(Allow, isIn(0, unix.AF_UNIX), maskedIn(1, typeMask, unix.SOCK_STREAM, unix.SOCK_SEQPACKET))},
			Why:   "a pair of datagram sockets can still send to any name",
		},
		{
			Calls: "setsockopt", Do: Allow,
			Cases: []Case{
				when(eperm, isIn(1, unix.IPPROTO_IP), between(2, Range{iptSetFirst, iptSetLast}, Range{arptFirst, arptFirst + 1}, Range{ebtFirst, ebtFirst + 1})),
				when(eperm, isIn(1, unix.IPPROTO_IPV6), between(2, Range{iptSetFirst, iptSetLast})),
				when(Errno(unix.ENOENT), isIn(1, unix.IPPROTO_TCP), isIn(2, unix.TCP_ULP)),
			},
			Why: "tables of the old packet filter, which an inner user namespace may set (CVE-2021-22555), and TLS in the kernel; ENOENT is a kernel without it",
		},
	}
}
