package wire

// Methods by which a client asks about the executor.
const (
	MethodEnvironmentConfigRead = "environmentConfig/read"
	MethodDiscoverRoots         = "capabilityRoots/discoverV1"
	MethodDiscoverCapabilities  = "capabilities/discoverV2"
)

// ConfigReadParams asks for parts of the configuration files of the executor's
// user. Each path is a list of keys.
type ConfigReadParams struct {
	Cwd               PathURI    `json:"cwd"`
	ConfigPaths       [][]string `json:"configPaths"`
	RequirementsPaths [][]string `json:"requirementsPaths"`
}

// ConfigReadResult answers environmentConfig/read.
type ConfigReadResult struct {
	UserHomeDir  *string      `json:"userHomeDir"` // URIs
	CodexHomeDir string       `json:"codexHomeDir"`
	Hostname     *string      `json:"hostname"`
	Config       ConfigLayers `json:"config"`
	Requirements ConfigLayers `json:"requirements"`
}

// ConfigLayers are configuration files, lowest precedence first.
type ConfigLayers struct {
	Layers              []ConfigLayer `json:"layers"`
	CloudInsertionIndex int           `json:"cloudInsertionIndex"`
}

// ConfigLayer has the requested keys of one file.
type ConfigLayer struct {
	Source  string  `json:"source"`
	BaseDir *string `json:"baseDir"` // a URI
	TOML    string  `json:"toml"`
}

// DiscoverRootsParams asks for the plugins and skills in some directories.
type DiscoverRootsParams struct {
	Roots []DiscoverRoot `json:"roots"`
}

// DiscoverRoot is a directory to search.
type DiscoverRoot struct {
	ID      string   `json:"id"`
	Path    PathURI  `json:"path"`
	Sandbox *Sandbox `json:"sandbox"`
}

// DiscoverRootsResult answers capabilityRoots/discoverV1.
type DiscoverRootsResult struct {
	Roots []DiscoveredRoot `json:"roots"`
}

// DiscoveredRoot has the plugin and the skills of one directory.
type DiscoveredRoot struct {
	ID                 string            `json:"id"`
	Path               string            `json:"path"` // a URI
	Plugin             *DiscoveredPlugin `json:"plugin"`
	Skills             []DiscoveredSkill `json:"skills"`
	NamespaceManifests []CapabilityFile  `json:"namespaceManifests"`
	Warnings           []string          `json:"warnings"`
	Error              *string           `json:"error"`
}

// DiscoveredPlugin is the files of a plugin.
type DiscoveredPlugin struct {
	Manifest   CapabilityFile  `json:"manifest"`
	MCPConfig  *CapabilityFile `json:"mcpConfig"`
	AppsConfig *CapabilityFile `json:"appsConfig"`
}

// DiscoveredSkill is the files of a skill.
type DiscoveredSkill struct {
	Instructions CapabilityFile  `json:"instructions"`
	Metadata     *CapabilityFile `json:"metadata"`
}

// CapabilityFile is a file with its content.
type CapabilityFile struct {
	Path     string `json:"path"` // a URI
	Contents string `json:"contents"`
}

// DiscoverCapabilitiesParams asks for the plugins and skills of the executor's
// user.
type DiscoverCapabilitiesParams struct {
	Cwd     PathURI  `json:"cwd"`
	Sandbox *Sandbox `json:"sandbox"`
}
