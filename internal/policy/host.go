package policy

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// shortRule reads the short form of a network rule: "@PRESET", "NAME" or
// "NAME:PORT", where NAME may be a wildcard.
func shortRule(s string) (r api.NetworkRule, what, hint string) {
	if name, ok := strings.CutPrefix(s, "@"); ok {
		if what, hint = checkName(name); what != "" {
			return r, what, hint
		}
		return api.NetworkRule{Preset: name}, "", ""
	}
	host := s
	if name, port, ok := strings.Cut(s, ":"); ok && !strings.Contains(port, ":") && !strings.Contains(port, "/") {
		n, ok := portNumber(port)
		if !ok {
			return r, quote(s) + " has no valid port", "write NAME:PORT with a port from 1 to 65535"
		}
		host, r.Ports = name, []int{n}
	}
	r.Host, what, hint = normalHost(host)
	if what == "" && !strings.Contains(r.Host, ".") {
		what, hint = singleLabel(r.Host)
	}
	return r, what, hint
}

func singleLabel(host string) (what, hint string) {
	return quote(host) + " is a single label, which names nothing outside", "write the full name, or a mapping with host and to for a service of this host"
}

// portNumber reads a port in decimal without leading zeros.
func portNumber(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= 65535 && s[0] != '0' && s[0] != '+'
}

// normalHost gives a host name in its one form: lower case, without the final
// dot, ASCII. It refuses all that is no name or wildcard.
func normalHost(s string) (host, what, hint string) {
	if what, hint = notAName(s); what != "" {
		return "", what, hint
	}
	host = strings.ToLower(strings.TrimSuffix(s, "."))
	if what, hint = badLabels(strings.TrimPrefix(host, "*."), s); what != "" {
		return "", what, hint
	}
	if metadataName(host) {
		return "", quote(host) + " is a cloud's metadata service, which no sandbox reaches", "remove it; give a credential instead"
	}
	return host, "", ""
}

// notAName tells what a person wrote instead of a host name.
func notAName(s string) (what, hint string) {
	switch {
	case s == "":
		return "an empty host name", "write a name such as api.example.org"
	case hasControl(s):
		return "a control character in host " + quote(s), "remove it"
	case strings.Contains(s, "://"):
		return quote(s) + " is a URL, not a host name", "write the name alone; paths go to `paths`"
	case strings.Contains(s, "@"):
		return quote(s) + " holds user information", "write the name alone; secrets go to `credentials`"
	case strings.Contains(s, "/"):
		if _, err := netip.ParsePrefix(s); err == nil {
			return quote(s) + " is a range of addresses", "write {cidr: " + s + ", ports: [...]}"
		}
		return quote(s) + " holds a path", "write the name alone; paths go to `paths`"
	}
	bare := strings.TrimPrefix(s, "[")
	if i := strings.IndexByte(bare, ']'); i >= 0 {
		bare = bare[:i] // [ADDRESS] or [ADDRESS]:PORT
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		return quote(s) + " is an address, not a name", "write {cidr: " + netip.PrefixFrom(a.WithZone(""), a.BitLen()).String() + ", ports: [...]}"
	}
	for _, c := range s {
		if c > 126 {
			return "host " + quote(s) + " is not ASCII", "write its xn-- form"
		}
	}
	return "", ""
}

// badLabels checks the labels of a name in lower case.
func badLabels(name, written string) (what, hint string) {
	if len(name) > 253 {
		return "host " + quote(written) + " is longer than 253 characters", "shorten it"
	}
	label := ""
	for label = range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return "host " + quote(written) + " has an empty label", "write labels with single dots between them"
		case label == "*" || strings.Contains(label, "*"):
			return "host " + quote(written) + " has a star that is not the whole first label", "write *.example.org, or list the names"
		case len(label) > 63:
			return "host " + quote(written) + " has a label longer than 63 characters", "shorten it"
		case label[0] == '-' || label[len(label)-1] == '-':
			return "host " + quote(written) + " has a label that starts or ends with a hyphen", "check the name"
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
			return "host " + quote(written) + " holds a character that no host name has", "names have letters, digits, hyphens and dots"
		}
	}
	// 127.1, 0x7f.1 and 2130706433 are addresses to many clients.
	if strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x") {
		return "host " + quote(written) + " ends like an address", "write {cidr: ADDRESS/LENGTH, ports: [...]}"
	}
	return "", ""
}

// tooWide refuses an allow for a wildcard over names of different owners; rest
// is what follows the star. The list of all
// public suffixes would cost a quarter of the start-up time, so the rule is
// two labels, and the shared suffixes that people meet.
func tooWide(rest string) (what, hint string) {
	hint = "list the names, or write a wildcard below one owner's name: *.team.example.org"
	if !strings.Contains(rest, ".") {
		return "*." + rest + " covers names of many owners", hint
	}
	if first, last, _ := strings.Cut(rest, "."); len(last) == 2 {
		switch first {
		case "ac", "co", "com", "edu", "gob", "gov", "go", "gv", "ne", "net", "nom", "or", "org", "ltd", "plc", "sch", "id", "in", "web":
			return "*." + rest + " covers names of many owners", hint
		}
	}
	switch rest {
	case "github.io", "gitlab.io", "pages.dev", "workers.dev", "vercel.app", "netlify.app", "web.app", "firebaseapp.com",
		"herokuapp.com", "appspot.com", "run.app", "fly.dev", "onrender.com", "azurewebsites.net", "cloudfront.net",
		"s3.amazonaws.com", "amazonaws.com", "blob.core.windows.net", "blogspot.com", "ngrok.io", "ngrok.app", "ngrok-free.app",
		"trycloudflare.com", "glitch.me", "repl.co", "replit.app", "surge.sh", "hf.space", "supabase.co", "r2.dev", "eu.org", "uk.com":
		return "*." + rest + " covers names of many owners", hint
	}
	return "", ""
}

// metadataName tells the names under which clouds hand out machine secrets.
func metadataName(host string) bool {
	switch host {
	case "metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "metadata.azure.internal", "metadata.tencentyun.com":
		return true
	}
	return false
}

// metadataCIDR tells ranges that hold nothing but such services.
func metadataCIDR(p netip.Prefix) bool {
	for _, s := range [...]string{"169.254.0.0/16", "fd00:ec2::/32", "100.100.100.200/32"} {
		m := netip.MustParsePrefix(s)
		if p.Bits() >= m.Bits() && m.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// hasControl reports characters that end or bend a line, a path or a terminal.
func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return true
		}
	}
	return false
}
