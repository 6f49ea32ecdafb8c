package main

// draftSchema is the draft form of a sandbox (wire/draft.go). Members that are not known are refused unless the mode is disabled; the
// schema demands that of the outermost object only.
var draftSchema = jsonObject{
	{"type", "object"},
	{"properties", jsonObject{
		{"mode", jsonObject{{"enum", []string{"disabled", "auto", "require"}}}},
		{"policy", orNull(legacyPolicy)},
		{"fileSystemPolicy", orNull(draftFileSystem)},
		{"networkPolicy", orNull(refTo("NetworkAccess"))},
		{"sandboxPolicyCwd", orNull(draftPath)},
		{"enforceManagedNetwork", aBoolean}, {"useLegacyLandlock", aBoolean}, {"windowsSandboxPrivateDesktop", aBoolean},
		{"windowsSandboxLevel", true},
	}},
	{"required", []string{"mode"}},
	{"if", jsonObject{{"properties", jsonObject{{"mode", jsonObject{{"const", "disabled"}}}}}}},
	{"else", jsonObject{
		{"anyOf", []jsonObject{hasValue("policy"), hasValue("fileSystemPolicy")}},
		{"propertyNames", jsonObject{{"enum", []string{
			"mode", "policy", "fileSystemPolicy", "networkPolicy", "sandboxPolicyCwd", "enforceManagedNetwork", "useLegacyLandlock",
			"windowsSandboxPrivateDesktop", "windowsSandboxLevel",
		}}}},
	}},
}

var (
	aBoolean  = jsonObject{{"type", "boolean"}}
	draftPath = jsonObject{{"type", "string"}}

	legacyReads = tagged("type",
		tagForm{"restricted", jsonObject{{"include_platform_defaults", aBoolean}, {"readable_roots", listOf(draftPath)}}},
		tagForm{"full-access", nil})

	legacyPolicy = tagged("type",
		tagForm{"danger-full-access", nil},
		tagForm{"read-only", jsonObject{{"access", legacyReads}, {"network_access", aBoolean}}},
		tagForm{"external-sandbox", jsonObject{{"network_access", orNull(refTo("NetworkAccess"))}}},
		tagForm{"workspace-write", jsonObject{
			{"writable_roots", listOf(draftPath)}, {"read_only_access", legacyReads}, {"network_access", aBoolean},
			{"exclude_tmpdir_env_var", aBoolean}, {"exclude_slash_tmp", aBoolean},
		}})

	draftEntries = jsonObject{
		{"entries", listOf(refTo("SandboxEntry"))},
		{"glob_scan_max_depth", orNull(jsonObject{{"type", "integer"}, {"minimum", 1}})},
	}
	noEntries       = jsonObject{{"entries", jsonObject{{"type", "array"}, {"maxItems", 0}}}}
	draftFileSystem = tagged("kind", tagForm{"restricted", draftEntries}, tagForm{"unrestricted", noEntries}, tagForm{"external-sandbox", noEntries})
)

// A tagForm is one form of a union in the draft.
type tagForm struct {
	value      string
	properties jsonObject
}

func tagged(tag string, forms ...tagForm) jsonObject {
	var list []jsonObject
	for _, f := range forms {
		properties := append(jsonObject{{tag, jsonObject{{"const", f.value}}}}, f.properties...)
		list = append(list, jsonObject{{"type", "object"}, {"properties", properties}, {"required", []string{tag}}})
	}
	return jsonObject{{"oneOf", list}}
}

func hasValue(name string) jsonObject {
	return jsonObject{{"properties", jsonObject{{name, jsonObject{{"type", "object"}}}}}, {"required", []string{name}}}
}

func listOf(items jsonObject) jsonObject { return jsonObject{{"type", "array"}, {"items", items}} }

func orNull(s jsonObject) jsonObject {
	return jsonObject{{"anyOf", []jsonObject{s, {{"type", "null"}}}}}
}
