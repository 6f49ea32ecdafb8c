package web

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// environment is the server's environment, by name.
type environment map[string]string

// newEnvironment reads NAME=value entries. If a name is set twice, the first value counts, as for
// getenv.
func newEnvironment(entries []string) environment {
	env := make(environment, len(entries))
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			if _, twice := env[name]; !twice {
				env[name] = value
			}
		}
	}
	return env
}

// first returns the value of the first variable that is set, even if it is empty.
func (e environment) first(names ...string) string {
	for _, name := range names {
		if value, ok := e[name]; ok {
			return value
		}
	}
	return ""
}

// secretVariables are the server's own credentials: no header may contain them. Their names are
// compared without regard to case.
var secretVariables = []string{
	"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
	"OPENAI_FEDERATION_RULE_ID",
	"OPENAI_IDENTITY_TOKEN_FILE",
	"OPENAI_WORKLOAD_IDENTITY_CONTEXT",
	"OPENAI_API_KEY",
	"CODEX_API_KEY",
	"CODEX_ACCESS_TOKEN",
	"CODEX_CONNECTORS_TOKEN",
	"AWS_ACCESS_KEY_ID",
	"AWS_SECRET_ACCESS_KEY",
	"AWS_SESSION_TOKEN",
	"AZURE_CLIENT_SECRET",
	"AZURE_FEDERATED_TOKEN_FILE",
	"GOOGLE_APPLICATION_CREDENTIALS",
}

// headerValue returns the value of the variable that a header asks for.
func (e environment) headerValue(header, variable string) (string, error) {
	if slices.ContainsFunc(secretVariables, func(s string) bool { return strings.EqualFold(s, variable) }) {
		return "", invalid("header %s cannot use executor environment variable %s", header, variable)
	}
	value, ok := e[variable]
	if !ok || !utf8.ValidString(value) {
		return "", invalid("header %s requires executor environment variable %s", header, variable)
	}
	if value == "" {
		return "", invalid("header %s requires a non-empty executor environment variable %s", header, variable)
	}
	return value, nil
}
