package policy

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// checkText checks the text of a field and gives its normal form. at is
// "STRUCT.FIELD" of api; what is empty if the text is right.
func checkText(at, s string) (norm, what, hint string) {
	if words := enumWords(at); words != nil {
		for _, w := range words {
			if w == s {
				return s, "", ""
			}
		}
		return "", "unknown value " + quote(s), didYouMean(s, words)
	}
	if at == "Policy.Env" {
		if strings.ContainsRune(s, 0) {
			return "", "a value with a NUL", "remove it"
		}
		return s, "", ""
	}
	if s == "" {
		return "", "an empty text", "give it a value, or remove it"
	}
	if hasControl(s) {
		return "", "a control character in " + quote(s), "remove it"
	}
	switch at {
	case "NetworkRule.Host":
		return normalHost(s)
	case "NetworkRule.CIDR":
		return normalCIDR(s)
	}
	what, hint = checkForm(at, s)
	return s, what, hint
}

// checkForm checks texts that have one form already.
func checkForm(at, s string) (what, hint string) {
	switch at {
	case "Policy.Extends", "Credential.Name", "GitRule.Credential", "Service.Name", "Service.After":
		return checkName(s)
	case "Policy.Image":
		return checkImage(s)
	case "Workspace.Path", "Filesystem.Read", "Filesystem.Write":
		return checkPath(s, false)
	case "Filesystem.Hide", "Workspace.Protect":
		return checkPath(s, true)
	case "CredentialFile.Path":
		return checkPath(s, false)
	case "Workspace.Home", "GitRule.Push", "GitRule.Export":
		return checkRef(s, at != "GitRule.Export")
	case "Keep.Home", "Workspace.Unprotect":
		return checkInside(s)
	case "Network.Publish":
		return checkPublish(s)
	case "NetworkRule.Methods":
		return checkMethod(s)
	case "NetworkRule.Paths":
		return checkURLPath(s)
	case "NetworkRule.To":
		return checkTo(s)
	case "NetworkRule.Programs":
		if s[0] != '/' {
			return quote(s) + " is no full path", "write the program as /usr/bin/NAME"
		}
	case "Credential.From":
		return checkFrom(s)
	case "Credential.Inject":
		return checkInject(s)
	case "Credential.Env":
		return checkEnvName(s)
	case "GitRule.Repo":
		return checkRepo(s)
	}
	return "", ""
}

// enumWords lists the values of a closed field, nil if it is open.
func enumWords(at string) []string {
	switch at {
	case "Policy.Trust":
		return []string{"own", "reviewed", "generated", "hostile"}
	case "Policy.Tenants":
		return []string{"one", "many"}
	case "Policy.Tier":
		return []string{"auto", "process", "container", "gvisor", "microvm", "wasm"}
	case "Policy.Accept":
		return lossNames()
	case "Workspace.Mode":
		return []string{"direct", "review", "branch", "copy", "none"}
	case "Workspace.OnExecLater":
		return []string{"tell", "ask", "stop"}
	case "Keep.Caches":
		return []string{"go", "npm", "pip", "cargo", "maven", "gradle", "yarn", "pnpm", "uv"}
	case "NetworkRule.Protocol":
		return []string{"tcp", "udp"}
	case "NetworkRule.DNS":
		return []string{"SRV", "TXT", "MX", "CNAME", "NS", "CAA", "NAPTR"}
	case "CredentialFile.Format":
		return []string{"json"}
	case "GitRule.Sign":
		return []string{"none", "ssh", "gpg"}
	case "Lifetime.OnIdle":
		return []string{"none", "pause", "hibernate", "stop"}
	}
	return nil
}

func lossNames() []string {
	var names []string
	for _, l := range api.Losses() {
		names = append(names, string(l.Loss))
	}
	return names
}

func checkNumber(at string, n int64) (what, hint string) {
	switch at {
	case "Policy.Version":
		if n != 1 {
			return "this Caisson knows version 1, not " + strconv.FormatInt(n, 10), "write version: 1"
		}
	case "NetworkRule.Ports", "ServiceReady.TCP":
		if n > 65535 {
			return strconv.FormatInt(n, 10) + " is no port", "ports are 1 to 65535"
		}
	}
	return "", ""
}

// checkName checks a word that names something of ours.
func checkName(s string) (what, hint string) {
	if s == "" || len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || s[0] == '.' || s[0] == '-' {
		return quote(s) + " is no name", "names are lower-case letters, digits, hyphens, dots and underscores, at most 64"
	}
	return "", ""
}

func checkEnvName(s string) (what, hint string) {
	if s == "" || strings.ContainsAny(s, "= ") || hasControl(s) || s[0] >= '0' && s[0] <= '9' {
		return quote(s) + " is no name of a variable", "write letters, digits and underscores"
	}
	return "", ""
}

func checkImage(s string) (what, hint string) {
	if s == "host" {
		return "", ""
	}
	if strings.ContainsAny(s, " \t\\") || s[0] == '-' || s[0] == '/' || strings.Contains(s, "://") {
		return quote(s) + " is no image", "write host, an OCI reference such as docker.io/library/debian:12, or template/NAME"
	}
	return "", ""
}

// checkPath checks a path of the host. Patterns are for hide and protect.
func checkPath(s string, globs bool) (what, hint string) {
	if s[0] == '~' && s != "~" && !strings.HasPrefix(s, "~/") {
		return quote(s) + " names another user's home", "write the full path"
	}
	if strings.Contains(s, "$") {
		return quote(s) + " holds a variable, which a policy does not expand", "write the path out; ~ is your home"
	}
	if !globs && isGlob(s) {
		return quote(s) + " is a pattern", "name the folder; patterns are for hide and protect"
	}
	return "", ""
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// checkInside checks a path that stays below the folder it is relative to.
func checkInside(s string) (what, hint string) {
	if s[0] == '/' || s[0] == '~' {
		return quote(s) + " is not relative", "write it without the leading " + s[:1]
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." || part == "." || part == "" {
			return quote(s) + " holds an empty, . or .. part", "write the path without it"
		}
	}
	return "", ""
}

// checkRef checks a full git ref, with * as its last part where patterns may be.
func checkRef(s string, pattern bool) (what, hint string) {
	hint = "write a full ref such as refs/heads/agent/work"
	if pattern {
		hint = "write a full ref or one with a star at its end, such as refs/heads/agent/*"
	}
	if !strings.HasPrefix(s, "refs/") {
		return quote(s) + " is no full ref", hint
	}
	body := s
	if rest, ok := strings.CutSuffix(s, "/*"); ok && pattern {
		body = rest
	}
	for part := range strings.SplitSeq(body, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") || strings.HasSuffix(part, ".") {
			return quote(s) + " is no valid ref", hint
		}
	}
	if strings.ContainsAny(body, " ~^:?*[\\") || strings.Contains(s, "..") || strings.Contains(s, "@{") || strings.Count(body, "/") < 1 {
		return quote(s) + " is no valid ref", hint
	}
	return "", ""
}

func checkMethod(s string) (what, hint string) {
	if strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" && s != "CONNECT" {
		return "", ""
	}
	if s == "CONNECT" {
		return "CONNECT is no method of a request that a rule sees", "name the methods that are sent through the connection"
	}
	return quote(s) + " is no method", "write it in capitals: " + strings.ToUpper(oneLine(shorten(s)))
}

func checkURLPath(s string) (what, hint string) {
	if s[0] != '/' || strings.ContainsAny(s, " ?#\\") {
		return quote(s) + " is no path", "write it from the leading /, without a query; * is one part, ** any number"
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "." || part == ".." {
			return quote(s) + " holds a . or .. part", "write the path without it"
		}
	}
	return "", ""
}

// checkTo checks ADDRESS:PORT of a service of the host.
func checkTo(s string) (what, hint string) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil || ap.Port() == 0 || ap.Addr().Zone() != "" {
		return quote(s) + " is no ADDRESS:PORT", "write 127.0.0.1:5432"
	}
	return "", ""
}

func normalCIDR(s string) (norm, what, hint string) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, err := netip.ParseAddr(s); err == nil {
			return "", quote(s) + " has no length", "write " + netip.PrefixFrom(a.WithZone(""), a.BitLen()).String()
		}
		return "", quote(s) + " is no range of addresses", "write 10.20.0.0/16"
	}
	if p != p.Masked() {
		return "", quote(s) + " has bits beyond its length", "write " + p.Masked().String()
	}
	if p.Addr().Is4In6() {
		return "", quote(s) + " is an IPv4 range in IPv6 form", "write it as IPv4"
	}
	if metadataCIDR(p) {
		return "", quote(s) + " is a cloud's metadata service, which no sandbox reaches", "remove it"
	}
	return p.String(), "", ""
}

// checkPublish checks [IP:]PORT[:BOXPORT].
func checkPublish(s string) (what, hint string) {
	hint = "write PORT, PORT:BOXPORT or 127.0.0.1:PORT:BOXPORT"
	rest := s
	if i := strings.LastIndex(s, "]:"); i >= 0 && s[0] == '[' {
		if _, err := netip.ParseAddr(s[1:i]); err != nil {
			return quote(s) + " has no valid address", hint
		}
		rest = s[i+2:]
	} else if first, after, ok := strings.Cut(s, ":"); ok && strings.ContainsAny(first, ".") {
		if _, err := netip.ParseAddr(first); err != nil {
			return quote(s) + " has no valid address", hint
		}
		rest = after
	}
	port, box, two := strings.Cut(rest, ":")
	if _, ok := portNumber(port); !ok {
		return quote(s) + " has no valid port", hint
	}
	if _, ok := portNumber(box); two && !ok {
		return quote(s) + " has no valid port", hint
	}
	return "", ""
}
