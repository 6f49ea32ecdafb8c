package codexhome

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tetherexec/tether/internal/toml"
)

// requirementsOf returns the requirements that a managed configuration implies: a
// user may not change what it sets.
func requirementsOf(managed *toml.Table) (*toml.Table, error) {
	required := toml.New()
	policy, err := approvalPolicy(managed.Values["approval_policy"])
	if err != nil {
		return nil, within(err, "approval_policy")
	}
	if policy != nil {
		required.Set("allowed_approval_policies", []any{policy})
	}
	reviewer, err := variant(managed.Values["approvals_reviewer"], "user", "auto_review", "guardian_subagent")
	if err != nil {
		return nil, within(err, "approvals_reviewer")
	}
	switch reviewer {
	case "user":
		required.Set("allowed_approvals_reviewers", []any{"user"})
	case "auto_review", "guardian_subagent": // two names of the same reviewer
		required.Set("allowed_approvals_reviewers", []any{"auto_review", "user"})
	}
	mode, err := variant(managed.Values["sandbox_mode"], "read-only", "workspace-write", "danger-full-access")
	if err != nil {
		return nil, within(err, "sandbox_mode")
	}
	switch mode {
	case "":
	case "read-only":
		required.Set("allowed_sandbox_modes", []any{mode})
	default: // stricter values are always allowed
		required.Set("allowed_sandbox_modes", []any{"read-only", mode})
	}
	return required, nil
}

// approvalPolicy checks a policy; if there is none it returns nil.
func approvalPolicy(value any) (any, error) {
	if t, ok := value.(*toml.Table); ok {
		granular, ok := t.Values["granular"].(*toml.Table)
		if !ok || len(t.Keys) != 1 {
			return nil, fmt.Errorf("wanted exactly 1 element, expected `granular`")
		}
		return granularPolicy(granular)
	}
	name, err := variant(value, "untrusted", "on-failure", "on-request", "granular", "never")
	switch {
	case err != nil:
		return nil, err
	case name == "granular":
		return nil, fmt.Errorf("invalid type: unit variant, expected newtype variant")
	case name == "":
		return nil, nil
	}
	return name, nil
}

// granularPolicy fills in the defaults.
func granularPolicy(given *toml.Table) (*toml.Table, error) {
	full := toml.New()
	for _, field := range []struct {
		name     string
		required bool
	}{{"sandbox_approval", true}, {"rules", true}, {"skill_approval", false}, {"request_permissions", false}, {"mcp_elicitations", true}} {
		value, ok := given.Values[field.name]
		switch {
		case ok:
			full.Set(field.name, value)
		case field.required:
			return nil, fmt.Errorf("missing field `%s`", field.name)
		default:
			full.Set(field.name, toml.Raw("false"))
		}
	}
	policy := toml.New()
	policy.Set("granular", full)
	return policy, nil
}

// variant is a string out of a list; a missing value is empty.
func variant(value any, allowed ...string) (string, error) {
	if value == nil {
		return "", nil
	}
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("invalid type: unit variant, expected string only")
	}
	if slices.Contains(allowed, s) {
		return s, nil
	}
	if len(allowed) == 2 {
		return "", fmt.Errorf("unknown variant `%s`, expected `%s` or `%s`", s, allowed[0], allowed[1])
	}
	return "", fmt.Errorf("unknown variant `%s`, expected one of `%s`", s, strings.Join(allowed, "`, `"))
}

// within adds the position in the file to an error.
func within(err error, path string) error { return fmt.Errorf("%w\nin `%s`\n", err, path) }
