package egresstest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/egress"
)

// Table is a dialer that resolves names by a table and connects with the
// kernel's own sockets. It classes as little as the contract asks: it is for tests of
// what stands above a dialer, and no model of one.
type Table map[string][]netip.Addr

// Dial dials r.
func (t Table) Dial(ctx context.Context, r egress.Request) (io.ReadWriteCloser, api.Decision, error) {
	d := api.Decision{Verb: "connect", Target: target(r.Authority), Rule: r.Rule}
	deny := func(reason string) (io.ReadWriteCloser, api.Decision, error) {
		d.Reason = reason
		return nil, d, nil
	}
	switch {
	case r.Rule == "":
		return deny("no rule allows it")
	case r.Authority.Port == 0:
		return deny("no port")
	case r.Authority.UDP:
		return deny("this dialer has no UDP")
	}
	to := r.To
	if !to.IsValid() {
		addrs := []netip.Addr{r.Authority.Addr}
		switch {
		case r.Authority.Host != "":
			addrs = t[r.Authority.Host]
			if len(addrs) == 0 {
				return nil, d, fmt.Errorf("resolve %s: no such name", r.Authority.Host)
			}
		case !r.Authority.Addr.IsValid():
			return deny("neither a name nor an address")
		}
		for _, a := range addrs {
			if why := class(a, r.Private); why != "" {
				return deny(fmt.Sprintf("%s is %s", a, why))
			}
		}
		to = netip.AddrPortFrom(addrs[0].Unmap(), r.Authority.Port)
	}
	d.Action = api.ActionAllow
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, d, fmt.Errorf("connect to %s: %w", to, err)
	}
	return conn, d, nil
}

func target(a egress.Authority) string {
	host := a.Host
	if host == "" {
		host = a.Addr.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(a.Port)))
}

// class names the class for which an address is refused, "" if it is not.
func class(a netip.Addr, private bool) string {
	a = a.Unmap()
	special := []struct{ prefix, name string }{
		{"0.0.0.0/8", "reserved"}, {"240.0.0.0/4", "reserved"}, {"64:ff9b::/96", "NAT64"},
	}
	for _, s := range special {
		if netip.MustParsePrefix(s.prefix).Contains(a) {
			return s.name
		}
	}
	switch {
	case a.IsLinkLocalUnicast():
		return "link-local, where metadata services are"
	case a.IsMulticast(), a.IsUnspecified():
		return "no address of a host"
	case !private && (a.IsLoopback() || a.IsPrivate() || netip.MustParsePrefix("100.64.0.0/10").Contains(a)):
		return "private, and the rule does not say so"
	}
	return ""
}
