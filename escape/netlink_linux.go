package escape

import (
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// A netlink socket to the routing part of the kernel: the few requests that
// the lab's two networks need.
type netlink struct {
	fd  int
	seq uint32
}

// openNetlink speaks to the network namespace of the calling thread.
func openNetlink() (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() { _ = unix.Close(n.fd) }

// attribute encodes one netlink attribute with its padding.
func attribute(kind uint16, data []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, data...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// request sends one message and waits for the kernel's yes or no.
func (n *netlink) request(kind, flags uint16, body []byte) error {
	n.seq++
	msg := u32(uint32(16 + len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
	msg = binary.NativeEndian.AppendUint16(msg, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	msg = append(msg, u32(n.seq)...)
	msg = append(msg, u32(0)...)
	msg = append(msg, body...)
	if err := unix.Sendto(n.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send netlink request: %w", err)
	}
	buf := make([]byte, 8192)
	for {
		size, _, err := unix.Recvfrom(n.fd, buf, 0)
		if err != nil {
			return fmt.Errorf("read netlink answer: %w", err)
		}
		if size >= 20 && binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR && binary.NativeEndian.Uint32(buf[8:]) == n.seq {
			if code := int32(binary.NativeEndian.Uint32(buf[16:])); code != 0 {
				return fmt.Errorf("netlink request %d: %w", kind, unix.Errno(-code))
			}
			return nil
		}
	}
}

func linkMessage(index, flags uint32) []byte {
	b := []byte{unix.AF_UNSPEC, 0, 0, 0}
	b = append(b, u32(index)...)
	b = append(b, u32(flags)...)
	return append(b, u32(flags)...)
}

// veth makes a pair: one end here, the other in the namespace of the descriptor.
func (n *netlink) veth(here, there string, netns int) error {
	const infoKind, infoData, vethPeer, netNSFD = 1, 2, 1, 28
	peer := linkMessage(0, 0)
	peer = append(peer, attribute(unix.IFLA_IFNAME, append([]byte(there), 0))...)
	peer = append(peer, attribute(netNSFD, u32(uint32(netns)))...)
	info := attribute(infoKind, []byte("veth\x00"))
	info = append(info, attribute(infoData, attribute(vethPeer, peer))...)
	body := append(linkMessage(0, 0), attribute(unix.IFLA_IFNAME, append([]byte(here), 0))...)
	body = append(body, attribute(unix.IFLA_LINKINFO, info)...)
	return n.request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
}

// up sets a link up and gives it an address.
func (n *netlink) up(name, addr string, bits byte) error {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if err := n.request(unix.RTM_NEWLINK, 0, linkMessage(uint32(ifi.Index), unix.IFF_UP)); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	if addr == "" {
		return nil
	}
	ip := net.ParseIP(addr).To4()
	body := append([]byte{unix.AF_INET, bits, 0, 0}, u32(uint32(ifi.Index))...)
	body = append(body, attribute(unix.IFA_LOCAL, ip)...)
	body = append(body, attribute(unix.IFA_ADDRESS, ip)...)
	if err := n.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE, body); err != nil {
		return fmt.Errorf("give %s the address %s: %w", name, addr, err)
	}
	return nil
}

// defaultRoute sends all else to a gateway.
func (n *netlink) defaultRoute(gateway string) error {
	body := []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
	body = append(body, attribute(unix.RTA_GATEWAY, net.ParseIP(gateway).To4())...)
	return n.request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, body)
}
