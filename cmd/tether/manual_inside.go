//go:build mcp || fleet || !split

package main

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualPage returns the manual page of a command, with the text of its help.
func manualPage(cmd *cobra.Command, date string) string {
	var b strings.Builder
	page := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 %q %q tether\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(page)), date, "tether "+versionText(), roff(page), roffCode(lowerFirst(cmd.Short)))
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() && !cmd.DisableFlagsInUseLine {
		usage = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(usage))
	for paragraph := range strings.SplitSeq(cmp.Or(cmd.Long, cmd.Short+"."), "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			roffBlock(&b, paragraph)
		} else {
			fmt.Fprintf(&b, ".PP\n%s\n", roffCode(paragraph))
		}
	}
	manualCommands(&b, cmd)
	manualFlags(&b, cmd.LocalFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		roffBlock(&b, cmd.Example)
	}
	see := []string{"tether"}
	if cmd.HasParent() && cmd.Parent().HasParent() {
		see = append(see, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	if !cmd.HasParent() {
		b.WriteString(".SH FILES\nCommands that the server and everyday clients do not need are in the programs\n.B tether\\-mcp\nand\n.BR tether\\-fleet ,\n" +
			"which tether starts when a command needs them. They have the flags and the help of tether.\n")
		see = nil
	}
	b.WriteString(".SH SEE ALSO\n")
	for _, name := range see {
		fmt.Fprintf(&b, ".BR %s (1),\n", roff(name))
	}
	b.WriteString("https://github.com/tetherexec/tether\n")
	return b.String()
}

// manualCommands writes the list of subcommands, under their headings.
func manualCommands(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	b.WriteString(".SH COMMANDS\n")
	heading := ""
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if sub.GroupID != heading {
			heading = sub.GroupID
			fmt.Fprintf(b, ".SS %s\n", roff(heading))
		}
		fmt.Fprintf(b, ".TP\n.BR %s (1)\n%s\n", roff(strings.ReplaceAll(sub.CommandPath(), " ", "-")), roffCode(sub.Short))
	}
}

// manualFlags writes the flags under their headings, as the help has them.
func manualFlags(b *strings.Builder, fs *pflag.FlagSet) {
	b.WriteString(".SH OPTIONS\n")
	for _, g := range groupedFlags(fs) {
		fmt.Fprintf(b, ".SS %s\n", roff(g.heading))
		g.flags.VisitAll(func(f *pflag.Flag) {
			name, text := flagAndText(f)
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(name), roffCode(text))
		})
	}
}

// flagAndText splits what the help says of a flag.
func flagAndText(f *pflag.Flag) (name, text string) {
	one := pflag.NewFlagSet(f.Name, pflag.ContinueOnError)
	one.AddFlag(f)
	line := strings.Join(strings.Fields(one.FlagUsages()), " ")
	name = "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value, _ := pflag.UnquoteUsage(f); value != "" {
		name += " " + value
	}
	return name, strings.TrimSpace(strings.TrimPrefix(line, name))
}

// roffBlock writes lines that stay as they are.
func roffBlock(b *strings.Builder, text string) {
	b.WriteString(".PP\n.nf\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".fi\n")
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// roff writes a text so that roff shows it unchanged.
func roff(text string) string { return noRequests(roffEscapes.Replace(text)) }

// roffCode is roff for sentences: what stands in backquotes is bold.
func roffCode(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = roffEscapes.Replace(part)
		if i%2 == 1 {
			part = `\fB` + part + `\fR`
		}
		b.WriteString(part)
	}
	return noRequests(b.String())
}

// noRequests protects lines that begin with a dot or an apostrophe, which roff would take for requests.
func noRequests(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// lowerFirst writes the first letter small, unless the word is a name.
func lowerFirst(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if second, _ := utf8.DecodeRuneInString(text[size:]); unicode.IsUpper(second) {
		return text
	}
	return string(unicode.ToLower(first)) + text[size:]
}
