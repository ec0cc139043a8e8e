package api

// Policy is what a sandbox may do, as one policy file says it. docs/policy.md
// describes each key. A pointer or nil slice that is unset leaves the matter to
// the policies below; within a network rule an absent condition restricts
// nothing and a present empty list matches nothing, so nil and empty differ.
type Policy struct {
	Version     int                `json:"version" yaml:"version"`
	Extends     []string           `json:"extends,omitzero" yaml:"extends"`
	Trust       Trust              `json:"trust,omitempty" yaml:"trust"`
	Tenants     Tenants            `json:"tenants,omitempty" yaml:"tenants"`
	Tier        Tier               `json:"tier,omitempty" yaml:"tier"`
	Image       string             `json:"image,omitempty" yaml:"image"`
	Accept      []Loss             `json:"accept,omitzero" yaml:"accept"`
	Workspace   Workspace          `json:"workspace,omitzero" yaml:"workspace"`
	Filesystem  Filesystem         `json:"filesystem,omitzero" yaml:"filesystem"`
	Network     Network            `json:"network,omitzero" yaml:"network"`
	Credentials []Credential       `json:"credentials,omitzero" yaml:"credentials"`
	Git         []GitRule          `json:"git,omitzero" yaml:"git"`
	Nested      *bool              `json:"nested,omitempty" yaml:"nested"`
	Env         map[string]*string `json:"env,omitzero" yaml:"env"` // nil removes
	Limits      Limits             `json:"limits,omitzero" yaml:"limits"`
	Lifetime    Lifetime           `json:"lifetime,omitzero" yaml:"lifetime"`
	Services    []Service          `json:"services,omitzero" yaml:"services"`
}

// Trust is how far the code in the sandbox is trusted.
type Trust string

// The levels of trust.
const (
	TrustOwn       Trust = "own"
	TrustReviewed  Trust = "reviewed"
	TrustGenerated Trust = "generated"
	TrustHostile   Trust = "hostile"
)

// Tenants says who shares the host.
type Tenants string

// The kinds of tenancy.
const (
	TenantsOne  Tenants = "one"
	TenantsMany Tenants = "many"
)

// WorkspaceMode is how the user's files get in and out.
type WorkspaceMode string

// The workspace modes.
const (
	WorkspaceDirect WorkspaceMode = "direct"
	WorkspaceReview WorkspaceMode = "review"
	WorkspaceBranch WorkspaceMode = "branch"
	WorkspaceCopy   WorkspaceMode = "copy"
	WorkspaceNone   WorkspaceMode = "none"
)

// Workspace is the one place of the user's that counts.
type Workspace struct {
	Path        string        `json:"path,omitempty" yaml:"path"`
	Mode        WorkspaceMode `json:"mode,omitempty" yaml:"mode"`
	Protect     []string      `json:"protect,omitzero" yaml:"protect"`
	Unprotect   []string      `json:"unprotect,omitzero" yaml:"unprotect"`
	OnExecLater string        `json:"on_exec_later,omitempty" yaml:"on_exec_later"` // tell | ask | stop
	Home        []string      `json:"home,omitzero" yaml:"home"`
}

// Filesystem says which host paths are visible beyond the base.
type Filesystem struct {
	Read  []string `json:"read,omitzero" yaml:"read"`
	Write []string `json:"write,omitzero" yaml:"write"`
	Hide  []string `json:"hide,omitzero" yaml:"hide"`
	Keep  Keep     `json:"keep,omitzero" yaml:"keep"`
}

// Keep names state that outlives boxes, per workspace and policy.
type Keep struct {
	Caches []string `json:"caches,omitzero" yaml:"caches"`
	Home   []string `json:"home,omitzero" yaml:"home"`
}

// Network is what may leave the sandbox, and who may come in.
type Network struct {
	Allow   []NetworkRule `json:"allow,omitzero" yaml:"allow"`
	Deny    []NetworkRule `json:"deny,omitzero" yaml:"deny"`
	Ask     *bool         `json:"ask,omitempty" yaml:"ask"`
	Budget  Budget        `json:"budget,omitzero" yaml:"budget"`
	Publish []string      `json:"publish,omitzero" yaml:"publish"` // [IP:]PORT[:BOXPORT]
}

// NetworkRule matches connections and requests. A string in the policy file is
// short for one with Preset ("@NAME") or Host ("NAME[:PORT]") alone.
type NetworkRule struct {
	Preset    string       `json:"preset,omitempty" yaml:"-"`
	Host      string       `json:"host,omitempty" yaml:"host"`
	CIDR      string       `json:"cidr,omitempty" yaml:"cidr"`
	Ports     []int        `json:"ports" yaml:"ports"` // nil: 443
	Protocol  string       `json:"protocol,omitempty" yaml:"protocol"`
	Methods   []string     `json:"methods" yaml:"methods"`
	Paths     []string     `json:"paths" yaml:"paths"`
	GraphQL   *GraphQLRule `json:"graphql,omitempty" yaml:"graphql"`
	MCP       *MCPRule     `json:"mcp,omitempty" yaml:"mcp"`
	WebSocket bool         `json:"websocket,omitempty" yaml:"websocket"`
	Private   bool         `json:"private,omitempty" yaml:"private"`
	To        string       `json:"to,omitempty" yaml:"to"` // host service, ADDRESS:PORT
	Programs  []string     `json:"programs" yaml:"programs"`
	DNS       []string     `json:"dns" yaml:"dns"` // record types beyond A
	Budget    Budget       `json:"budget,omitzero" yaml:"budget"`
}

// GraphQLRule names the root fields that a request may use.
type GraphQLRule struct {
	Queries       []string `json:"queries" yaml:"queries"`
	Mutations     []string `json:"mutations" yaml:"mutations"`
	Subscriptions []string `json:"subscriptions" yaml:"subscriptions"`
}

// MCPRule names the MCP tools that a request may call.
type MCPRule struct {
	Tools []string `json:"tools" yaml:"tools"`
}

// Budget bounds use. Zero means unset.
type Budget struct {
	Requests    int64    `json:"requests,omitempty" yaml:"requests"`
	Connections int64    `json:"connections,omitempty" yaml:"connections"` // at once
	Up          Bytes    `json:"up,omitempty" yaml:"up"`
	Down        Bytes    `json:"down,omitempty" yaml:"down"`
	Time        Duration `json:"time,omitempty" yaml:"time"`
}

// Credential is a secret held outside; inside there is a placeholder.
type Credential struct {
	Name   string         `json:"name" yaml:"name"`
	From   string         `json:"from" yaml:"from"` // SOURCE:REST
	Env    string         `json:"env,omitempty" yaml:"env"`
	File   CredentialFile `json:"file,omitzero" yaml:"file"`
	Inject string         `json:"inject" yaml:"inject"`
	Bind   []NetworkRule  `json:"bind,omitzero" yaml:"bind"`
	Budget Budget         `json:"budget,omitzero" yaml:"budget"`
}

// CredentialFile is a file inside with placeholders in place of every secret.
type CredentialFile struct {
	Path   string `json:"path,omitempty" yaml:"path"`
	Format string `json:"format,omitempty" yaml:"format"` // json
}

// GitRule opens one repository of the git gate.
type GitRule struct {
	Repo       string   `json:"repo" yaml:"repo"`
	Credential string   `json:"credential,omitempty" yaml:"credential"`
	Fetch      bool     `json:"fetch,omitempty" yaml:"fetch"`
	Push       []string `json:"push,omitzero" yaml:"push"`
	Force      bool     `json:"force,omitempty" yaml:"force"`
	Sign       string   `json:"sign,omitempty" yaml:"sign"` // none | ssh | gpg
	DenyPaths  []string `json:"deny_paths,omitzero" yaml:"deny_paths"`
	MaxBlob    Bytes    `json:"max_blob,omitempty" yaml:"max_blob"`
	Export     string   `json:"export,omitempty" yaml:"export"`
}

// Limits bound what a sandbox may use. Zero means unset.
type Limits struct {
	Memory    Bytes   `json:"memory,omitempty" yaml:"memory"`
	CPUs      float64 `json:"cpus,omitempty" yaml:"cpus"`
	Pids      int64   `json:"pids,omitempty" yaml:"pids"`
	Disk      Bytes   `json:"disk,omitempty" yaml:"disk"`
	OpenFiles int64   `json:"open_files,omitempty" yaml:"open_files"`
	Output    Bytes   `json:"output,omitempty" yaml:"output"`
}

// Lifetime holds all times of a sandbox. Zero means unset.
type Lifetime struct {
	Wall   Duration `json:"wall,omitempty" yaml:"wall"`
	Idle   Duration `json:"idle,omitempty" yaml:"idle"`
	Max    Duration `json:"max,omitempty" yaml:"max"`
	OnIdle string   `json:"on_idle,omitempty" yaml:"on_idle"` // none | pause | hibernate | stop
}

// Service is a program that a sandbox runs beside the command.
type Service struct {
	Name  string       `json:"name" yaml:"name"`
	Run   []string     `json:"run" yaml:"run"`
	Ready ServiceReady `json:"ready,omitzero" yaml:"ready"`
	After []string     `json:"after,omitzero" yaml:"after"`
}

// ServiceReady is the check that a service is ready. One field is set.
type ServiceReady struct {
	TCP     int      `json:"tcp,omitempty" yaml:"tcp"`
	HTTP    string   `json:"http,omitempty" yaml:"http"`
	Command []string `json:"command,omitzero" yaml:"command"`
}
