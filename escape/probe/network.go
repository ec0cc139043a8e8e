//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

const dialTime = 400 * time.Millisecond

func splitList(s string) []string { return strings.Split(s, ",") }

// fact expands "@name" to an address that the lab chose.
func fact(job escape.Job, s string) string {
	if strings.HasPrefix(s, "@") {
		return job.Facts[s[1:]]
	}
	return s
}

// dialTCP connects to each address of the row and sends the marker, as
// plain HTTP, with what comes back printed.
func dialTCP(job escape.Job) {
	for _, a := range splitList(job.Arg) {
		if host, port, err := net.SplitHostPort(a); err == nil {
			a = net.JoinHostPort(fact(job, host), fact(job, port))
		} else {
			a = fact(job, a)
		}
		c, err := net.DialTimeout("tcp", a, dialTime)
		tell("tcp "+a, err)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(dialTime))
		_, _ = fmt.Fprintf(c, "GET /%s HTTP/1.0\r\n\r\n", job.Marker)
		b := make([]byte, 512)
		n, _ := c.Read(b)
		show(b[:n])
		_ = c.Close()
	}
}

// sendUDP sends the marker by every means that is no TCP.
func sendUDP(job escape.Job) {
	host := job.Facts["upstream"]
	for _, port := range splitList(job.Arg) {
		a := net.JoinHostPort(host, port)
		if strings.Contains(port, ":") || strings.HasPrefix(port, "@") {
			a = fact(job, port)
		}
		c, err := net.Dial("udp", a)
		if err == nil {
			_, err = c.Write([]byte(job.Marker))
			_ = c.Close()
		}
		tell("udp "+a, err)
	}
	ip := net.ParseIP(host).To4()
	if ip == nil {
		return
	}
	to := &unix.SockaddrInet4{Addr: [4]byte(ip)}
	for _, k := range []struct{ kind, proto int }{
		{unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, {unix.SOCK_RAW, unix.IPPROTO_ICMP}, {unix.SOCK_RAW, unix.IPPROTO_RAW}, {unix.SOCK_STREAM, 132},
	} {
		fd, err := unix.Socket(unix.AF_INET, k.kind|unix.SOCK_NONBLOCK, k.proto)
		if err == nil {
			err = unix.Sendto(fd, append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, job.Marker...), 0, to)
			_ = unix.Close(fd)
		}
		tell(fmt.Sprint("socket ", k.kind, k.proto), err)
	}
}

// serveTCP listens on all addresses and greets with the marker.
func serveTCP(job escape.Job) {
	host := "0.0.0.0"
	if job.Arg == "local" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, job.Facts["port"]))
	tell("listen", err)
	if err != nil {
		return
	}
	text := job.Marker
	if s := job.Facts["share"]; s != "" {
		text = s
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text + "\n"))
			_ = c.Close()
		}
	}()
}

// resolve asks a resolver for names that carry the marker. The arg is the
// kind (udp or tcp), where to ask ("conf": what /etc/resolv.conf names) and
// the domain.
func resolve(job escape.Job) {
	f := strings.Fields(job.Arg)
	servers := splitList(fact(job, f[1]))
	if f[1] == "conf" {
		servers = []string{job.Facts["resolver"]}
		b, err := os.ReadFile("/etc/resolv.conf")
		tell("resolv.conf", err)
		for _, line := range strings.Split(string(b), "\n") {
			if w := strings.Fields(line); len(w) == 2 && w[0] == "nameserver" {
				servers = append(servers, net.JoinHostPort(w[1], "53"))
			}
		}
	}
	for _, s := range servers {
		c, err := net.DialTimeout(f[0], s, dialTime)
		if err == nil {
			q := query(job.Marker[:30] + "." + f[2])
			if f[0] == "tcp" {
				q = append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
			}
			_ = c.SetDeadline(time.Now().Add(dialTime))
			_, err = c.Write(q)
			_, _ = c.Read(make([]byte, 512))
			_ = c.Close()
		}
		tell(f[0]+" "+s, err)
	}
}

// query is a DNS question for the address of a name.
func query(name string) []byte {
	q := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range strings.Split(name, ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 0, 1, 0, 1)
}

// dialUnix connects to each socket path of the row and sends the marker.
func dialUnix(job escape.Job) {
	for _, p := range splitList(job.Arg) {
		p = fact(job, p)
		sendUnix(job, path(job, p))
	}
}

func sendUnix(job escape.Job, p string) {
	c, err := net.DialTimeout("unix", p, dialTime)
	tell("connect "+p, err)
	if err == nil {
		_, _ = c.Write([]byte(job.Marker + "\n"))
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		b := make([]byte, 256)
		n, _ := c.Read(b)
		show(b[:n])
		_ = c.Close()
	}
}

// dialAbstract connects to the abstract socket that the job names.
func dialAbstract(job escape.Job) { sendUnix(job, "@"+job.Facts["abstract"]) }

// listenAbstract takes an abstract name and gives out the share.
func listenAbstract(job escape.Job) {
	l, err := net.Listen("unix", "@"+job.Facts["abstract"])
	tell("listen", err)
	if err != nil {
		return
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(job.Facts["share"] + "\n"))
			_ = c.Close()
		}
	}()
}

// walkSockets sends the marker to every socket file that it can see where
// control sockets usually lie.
func walkSockets(job escape.Job) {
	n := 0
	for _, root := range []string{"/run", "/var/run", "/tmp", job.Home, "/dev/shm"} {
		_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if n++; err != nil || n > 5000 {
				return nil
			}
			if d.Type()&os.ModeSocket != 0 {
				sendUnix(job, p)
			}
			return nil
		})
	}
}

// writeFDs writes the marker into every inherited descriptor that is a socket.
func writeFDs(job escape.Job) {
	for fd := 3; fd < 64; fd++ {
		if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil {
			_ = unix.SetNonblock(fd, true)
			_, err = unix.Write(fd, []byte(job.Marker))
			tell(fmt.Sprint("descriptor ", fd), err)
		}
	}
}

// askHelpers reads what git's helper keeps and speaks to the ssh agent that the
// environment names.
func askHelpers(job escape.Job) {
	tell("git credentials", read(job.Home+"/.git-credentials"))
	if p := os.Getenv("SSH_AUTH_SOCK"); p != "" {
		sendUnix(job, p)
	}
	sendUnix(job, job.Home+"/run/agent.sock")
}
