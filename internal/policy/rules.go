package policy

import (
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// checkFrom checks SOURCE:REST of a credential.
func checkFrom(s string) (what, hint string) {
	sources := []string{"env", "file", "exec", "keyring", "age", "vault", "aws"}
	source, rest, ok := strings.Cut(s, ":")
	known := false
	for _, w := range sources {
		known = known || w == source
	}
	switch {
	case !ok || !known:
		hint = didYouMean(source, sources) + ":WHAT"
		if !ok {
			hint = "write SOURCE:WHAT, such as env:NAME or file:~/path; sources: " + strings.Join(sources, ", ")
		}
		// A person may have pasted the secret itself: do not repeat it.
		return "this names no source", hint
	case rest == "" && source != "aws":
		return "nothing after " + source + ":", "write " + source + ":WHAT"
	case source == "env":
		return checkEnvName(rest)
	case source == "file" || source == "age":
		return checkPath(rest, false)
	}
	return "", ""
}

// checkInject checks how a credential is used.
func checkInject(s string) (what, hint string) {
	kind, rest, ok := strings.Cut(s, ":")
	switch kind {
	case "header", "query":
		if !ok || rest == "" || strings.ContainsAny(rest, " :=&?\t") {
			return quote(s) + " has no name", "write " + kind + ":NAME"
		}
		return "", ""
	case "bearer", "basic", "aws-sigv4", "oauth2", "mtls", "postgres", "git", "ssh-agent":
		if ok {
			return quote(s) + " takes nothing after it", "write " + kind
		}
		return "", ""
	}
	return "unknown value " + quote(s), didYouMean(kind, []string{
		"bearer", "basic", "header:NAME", "query:NAME", "aws-sigv4", "oauth2", "mtls", "postgres", "git", "ssh-agent",
	})
}

// checkRepo checks HOST/PATH of a repository.
func checkRepo(s string) (what, hint string) {
	hint = "write it as github.com/owner/name"
	host, rest, ok := strings.Cut(s, "/")
	if !ok || strings.Contains(s, "://") || strings.HasSuffix(s, ".git") || strings.ContainsAny(s, "@: *?\\") {
		return quote(s) + " is no repository", hint
	}
	if norm, w, _ := normalHost(host); w != "" || norm != host {
		return quote(s) + " is no repository", hint
	}
	if rest == "" {
		return quote(s) + " is no repository", hint
	}
	if w, _ := checkInside(rest); w != "" {
		return quote(s) + " is no repository", hint
	}
	return "", ""
}

// checkStruct finds contradictions between the keys of one mapping. seen holds
// the keys that were written.
func checkStruct(v any, seen map[string]int) (what, hint string) {
	switch v := v.(type) {
	case *api.Policy:
		if seen["version"] == 0 {
			return "the version is missing", "write `version: 1` first"
		}
	case *api.Workspace:
		if v.Mode == api.WorkspaceNone && v.Path != "" {
			return "workspace.mode none has no workspace, yet workspace.path names one", "remove one of them"
		}
	case *api.NetworkRule:
		return checkRule(v, seen)
	case *api.Credential:
		return checkCredential(v, seen)
	case *api.CredentialFile:
		if v.Path == "" {
			return "a credential's file needs its path", "write {path: ~/.tool/auth.json, format: json}"
		}
	case *api.GitRule:
		return checkGit(v)
	case *api.Service:
		if v.Name == "" || len(v.Run) == 0 {
			return "a service needs name and run", "write name: db and run: [program, argument]"
		}
	case *api.ServiceReady:
		if len(seen) != 1 {
			return "a readiness check is exactly one of tcp, http and command", "keep one"
		}
	case *api.GraphQLRule:
		if len(seen) == 0 {
			return "graphql names no root fields, so it matches nothing", "write queries or mutations"
		}
	case *api.MCPRule:
		if seen["tools"] == 0 {
			return "mcp names no tools, so it matches nothing", "write tools"
		}
	}
	return "", ""
}

func checkRule(r *api.NetworkRule, seen map[string]int) (what, hint string) {
	content := r.Methods != nil || r.Paths != nil || r.GraphQL != nil || r.MCP != nil || r.WebSocket
	switch {
	case r.Host == "" && r.CIDR == "":
		return "a rule needs host or cidr", "write host: NAME"
	case r.Host != "" && r.CIDR != "":
		return "a rule has host or cidr, not both", "make two rules of it"
	case r.CIDR != "" && r.Ports == nil:
		return "a rule with cidr needs its ports", "write ports: [9000]"
	case r.CIDR != "" && content:
		return "methods, paths, graphql, mcp and websocket need a host, not a cidr", "write host: NAME, or remove them"
	case r.CIDR != "" && r.To != "":
		return "`to` gives a name to a service of this host, so it needs host", "write host: NAME"
	case r.CIDR != "" && r.DNS != nil:
		return "dns needs a host, not a cidr", "write host: NAME"
	case r.Protocol == "udp" && (content || r.To != ""):
		return "protocol udp has no methods, paths, graphql, mcp, websocket or to", "remove them"
	case r.Protocol == "udp" && r.Ports == nil:
		return "a rule with protocol udp needs its ports", "write ports: [123]"
	case r.GraphQL != nil && r.MCP != nil:
		return "a rule has graphql or mcp, not both", "make two rules of it"
	case r.To != "" && (r.Private || strings.HasPrefix(r.Host, "*.")):
		return "`to` names one service of this host: no wildcard and no private beside it", "remove them"
	case r.Host != "" && r.To == "" && !strings.Contains(r.Host, "."):
		return singleLabel(r.Host)
	case r.Budget.Time != 0:
		return "a rule's budget has no time", "remove it; a credential's budget may have one"
	}
	return "", ""
}

func checkCredential(c *api.Credential, seen map[string]int) (what, hint string) {
	switch {
	case c.Name == "" || c.From == "" || c.Inject == "":
		return "a credential needs name, from and inject", "write from: env:NAME and inject: bearer"
	case c.Inject == "git" && c.Bind != nil:
		return "a credential with inject: git is used by the git gate only and has no bind", "remove bind"
	case c.Inject != "git" && len(c.Bind) == 0:
		return "credential " + c.Name + " is bound to nothing, so it could not be used", "write bind: [{host: api.example.org}]"
	}
	for _, b := range c.Bind {
		switch {
		case b.Preset != "" || b.CIDR != "":
			return "credential " + c.Name + " is bound to a preset or a range: a secret goes to a verified name only", "write bind: [{host: NAME}]"
		case strings.HasPrefix(b.Host, "*."):
			return "credential " + c.Name + " is bound to a wildcard", "name each host"
		}
	}
	return "", ""
}

func checkGit(g *api.GitRule) (what, hint string) {
	switch {
	case g.Repo == "":
		return "a git entry needs its repo", "write repo: github.com/owner/name"
	case g.Export != "" && len(g.Push) > 0:
		return "export means that nothing is pushed from inside, yet push names refs", "remove one of them"
	case g.Force && len(g.Push) == 0:
		return "force without push", "write push: [refs/heads/agent/*], or remove force"
	}
	for _, p := range g.DenyPaths {
		if strings.HasPrefix(p, "/") {
			return "deny_paths are relative to the repository's top, not " + quote(p), "remove the leading /"
		}
	}
	return "", ""
}

// checkList finds contradictions between the elements of one list.
func checkList(at string, list any) (what, hint string) {
	seen := map[string]bool{}
	again := func(s string) bool {
		old := seen[s]
		seen[s] = true
		return old
	}
	switch list := list.(type) {
	case []api.Credential:
		for _, c := range list {
			if again(c.Name) {
				return "two credentials named " + c.Name, "rename one"
			}
		}
	case []api.GitRule:
		for _, g := range list {
			if again(g.Repo) {
				return "two entries for " + g.Repo, "make one of them"
			}
		}
	case []api.Service:
		for _, s := range list {
			if again(s.Name) {
				return "two services named " + s.Name, "rename one"
			}
		}
	case []api.Loss:
		for _, l := range list {
			if again(string(l)) {
				return quote(string(l)) + " is there twice", "keep one"
			}
		}
	case []string:
		for _, s := range list {
			if at != "Service.Run" && at != "ServiceReady.Command" && again(s) {
				return quote(s) + " is there twice", "keep one"
			}
		}
	}
	return "", ""
}
