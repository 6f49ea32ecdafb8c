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

// DiscoverCapabilitiesResult answers capabilities/discoverV2.
type DiscoverCapabilitiesResult struct {
	Plugins  []InstalledPlugin `json:"plugins"`
	Skills   []InstalledSkill  `json:"skills"`
	Warnings []string          `json:"warnings"`
}

// InstalledPlugin is an installed plugin.
type InstalledPlugin struct {
	ID             string           `json:"id"` // NAME@MARKETPLACE
	DisplayName    string           `json:"displayName"`
	RemotePluginID *string          `json:"remotePluginId"`
	Version        string           `json:"version"`
	Root           string           `json:"root"` // a URI
	Files          DiscoveredPlugin `json:"files"`
	Skills         []InstalledSkill `json:"skills"`
}

// InstalledSkill is the description of a skill by its own files.
type InstalledSkill struct {
	Name             string             `json:"name"`
	Description      string             `json:"description"`
	ShortDescription *string            `json:"shortDescription"`
	Path             string             `json:"path"` // a URI
	DiscoveryRoot    *SkillRoot         `json:"discoveryRoot,omitempty"`
	Dependencies     *SkillDependencies `json:"dependencies"`
	Policy           *SkillPolicy       `json:"policy"`
}

// SkillRoot is a directory of skills. Skills of a plugin have none.
type SkillRoot struct {
	ID   string `json:"id"`
	Path string `json:"path"` // a URI
}

// SkillDependencies are the tools that a skill needs.
type SkillDependencies struct {
	Tools []SkillTool `json:"tools"`
}

// SkillTool is a tool that a skill uses.
type SkillTool struct {
	Type              string  `json:"type"`
	Value             string  `json:"value"`
	Description       *string `json:"description"`
	Transport         *string `json:"transport"`
	Command           *string `json:"command"`
	URL               *string `json:"url"`
	OAuthCallbackPort *uint16 `json:"oauthCallbackPort"`
}

// SkillPolicy says when a skill may be used.
type SkillPolicy struct {
	AllowImplicitInvocation *bool    `json:"allowImplicitInvocation"`
	Products                []string `json:"products"`
}
