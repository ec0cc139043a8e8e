package escape

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The lab's addresses. The upstream ones are of a documentation range: they
// lead nowhere else.
const (
	labIP      = "203.0.113.1"
	upstreamIP = "203.0.113.53"
	metadataIP = "169.254.169.254"
)

// A logbook keeps what arrived at every listener of the lab. What a box sends
// out is looked for here.
type logbook struct {
	mu    sync.Mutex
	lines []entry
}

type entry struct {
	where string
	data  []byte
}

func (l *logbook) add(where string, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, entry{where, bytes.Clone(data)})
}

// find says where a text arrived first.
func (l *logbook) find(text string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.lines {
		if bytes.Contains(e.data, []byte(text)) {
			return e.where, true
		}
	}
	return "", false
}

func (l *logbook) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
}

// labNet is the lab's network: its own loopback with a metadata address, and a
// second namespace, "upstream", joined by a virtual cable. There is no way out.
type labNet struct {
	log      *logbook
	upstream int // descriptor of the second namespace
	facts    map[string]string
}

func newLabNet(log *logbook) (*labNet, error) {
	n := &labNet{log: log, facts: map[string]string{"upstream": upstreamIP, "lab": labIP, "metadata": metadataIP, "resolver": upstreamIP + ":53"}}
	here, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	defer unix.Close(here)
	err = onThread(func() error {
		nl, err := openNetlink()
		if err != nil {
			return err
		}
		defer nl.close()
		if err := nl.up("lo", metadataIP, 32); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make the upstream network: %w", err)
		}
		n.upstream, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		nl, err := openNetlink()
		if err != nil {
			return err
		}
		defer nl.close()
		if err := nl.veth("up0", "lab0", here); err != nil {
			return err
		}
		if err := nl.up("lo", "", 0); err != nil {
			return err
		}
		return nl.up("up0", upstreamIP, 24)
	})
	if err != nil {
		return nil, err
	}
	return n, onThread(func() error {
		nl, err := openNetlink()
		if err != nil {
			return err
		}
		defer nl.close()
		if err := nl.up("lab0", labIP, 24); err != nil {
			return err
		}
		return nl.defaultRoute(upstreamIP)
	})
}

// listenAll starts every listener of the lab: its own services, the metadata
// service, and the upstream ones.
func (n *labNet) listenAll(l *lab) error {
	port := strconv.Itoa(20000 + l.rng.IntN(20000))
	n.facts["port"], n.facts["loopdns"] = port, "127.0.0.1:"+port
	n.facts["dnstcp"] = upstreamIP + ":53," + upstreamIP + ":853," + upstreamIP + ":443"
	if err := n.tcp("host loopback", "127.0.0.1:"+port); err != nil {
		return err
	}
	if err := n.tcp("host loopback v6", "[::1]:"+port); err != nil {
		delete(n.facts, "v6") // a machine without IPv6 has one form less
	}
	if err := n.udp("host loopback udp", "127.0.0.1:"+port); err != nil {
		return err
	}
	if err := n.tcp("metadata", metadataIP+":80"); err != nil {
		return err
	}
	n.vsock(l)
	// Open ping sockets are the default of most systems; a fresh network namespace has them closed.
	_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 65535"), 0)
	return onThread(func() error {
		if err := unix.Setns(n.upstream, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the upstream network: %w", err)
		}
		for _, p := range []string{"80", "443", "53", "853", "8080"} {
			if err := n.tcp("upstream tcp "+p, upstreamIP+":"+p); err != nil {
				return err
			}
		}
		for _, p := range []string{"53", "443", "123"} {
			if err := n.udp("upstream udp "+p, upstreamIP+":"+p); err != nil {
				return err
			}
		}
		return n.packets()
	})
}

// tcp logs what comes and answers with a line.
func (n *labNet) tcp(where, addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", where, err)
	}
	go n.accept(where, ln)
	return nil
}

func (n *labNet) accept(where string, ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(2 * time.Second))
			buf := make([]byte, 4096)
			m, _ := c.Read(buf)
			n.log.add(where, buf[:m])
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nlab\n")
		}()
	}
}

// udp logs datagrams; a DNS question is logged as the name too, and refused.
func (n *labNet) udp(where, addr string) error {
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", where, err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			m, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			n.log.add(where, buf[:m])
			if m > 12 && strings.HasSuffix(where, " 53") {
				answer := bytes.Clone(buf[:m])
				binary.BigEndian.PutUint16(answer[2:], 0x8183) // an answer: no such name
				_, _ = c.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

// packets logs every packet that reaches the upstream side, whatever its
// protocol. The lab is root of its own network, so it may.
func (n *labNet) packets() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP)))
	if err != nil {
		return fmt.Errorf("open packet log: %w", err)
	}
	go func() {
		buf := make([]byte, 65536)
		for {
			m, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return
			}
			n.log.add("upstream packet", buf[:m])
		}
	}()
	return nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// vsock listens on the loopback of that family, where the machine has one.
func (n *labNet) vsock(l *lab) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	port := uint32(30000 + l.rng.IntN(10000))
	if unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_LOCAL, Port: port}) != nil || unix.Listen(fd, 4) != nil {
		_ = unix.Close(fd)
		return
	}
	n.facts["vsock"] = strconv.Itoa(int(port))
	go func() {
		for {
			c, _, err := unix.Accept(fd)
			if err != nil {
				return
			}
			buf := make([]byte, 256)
			m, _ := unix.Read(c, buf)
			n.log.add("vsock", buf[:max(m, 0)])
			_ = unix.Close(c)
		}
	}()
}

// fetch reads a line from an address, from the upstream side.
func (n *labNet) fetch(addr string) string {
	var got string
	_ = onThread(func() error {
		if err := unix.Setns(n.upstream, unix.CLONE_NEWNET); err != nil {
			return err
		}
		c, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(500 * time.Millisecond))
		b, err := io.ReadAll(io.LimitReader(c, 4096))
		got = string(b)
		return err
	})
	return got
}
