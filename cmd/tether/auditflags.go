package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/audit"
)

const flagAuditLog = "audit-log"

// auditFlags say where a server records what its clients do.
type auditFlags struct {
	target string
	size   byteSize
	keep   count
	strict bool
}

func (f *auditFlags) define(fs *pflag.FlagSet) {
	f.size, f.keep = audit.DefaultMaxSize, audit.DefaultKeep
	fs.StringVar(&f.target, flagAuditLog, "", "record what clients do, as JSON lines: `FILE`, stderr or syslog")
	fs.Var(&f.size, "audit-log-size", "rotate the file at this size")
	fs.Var(&f.keep, "audit-log-keep", "how many rotated files are kept")
	fs.BoolVar(&f.strict, "audit-log-strict", false, "start no command while nothing can be recorded (default: count the\nlost lines)")
	group(fs, "Logging", flagAuditLog, "audit-log-size", "audit-log-keep", "audit-log-strict")
}

func (f *auditFlags) config() (audit.Config, error) {
	if f.target == "" {
		if f.strict || f.size != audit.DefaultMaxSize || f.keep != audit.DefaultKeep {
			return audit.Config{}, errors.New("`--audit-log-size`, `--audit-log-keep` and `--audit-log-strict` require `--audit-log`")
		}
		return audit.Config{}, nil
	}
	c := audit.Config{Target: f.target, MaxSize: int64(f.size), Keep: int(f.keep), Strict: f.strict}
	if !c.IsFile() {
		return c, nil
	}
	path, err := filepath.Abs(c.Target)
	if err != nil {
		return c, fmt.Errorf("--audit-log %s: %w", c.Target, err)
	}
	c.Target = path
	return c, nil
}
