package main

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// Sizes of the picture, in pixels.
const (
	charWidth  = 8.4
	lineHeight = 19
	fontSize   = 14
	margin     = 18
	cableTop   = 96 // height of the part above the terminal
	titleBar   = 30
)

// head has the colours for light and dark pages, and the rule for readers who want no motion: they see the end.
const head = `<style>
svg{--page:#ffffff;--frame:#d0d7de;--ink:#1f2328;--soft:#59636e;--term:#f6f8fa;--bar:#eaeef2;--green:#1a7f37;--red:#cf222e;--blue:#0969da;--yellow:#7d4e00}
@media(prefers-color-scheme:dark){svg{--page:#0d1117;--frame:#3d444d;--ink:#e6edf3;--soft:#9198a1;--term:#161b22;--bar:#21262d;--green:#3fb950;--red:#ff7b72;--blue:#58a6ff;--yellow:#e3b341}}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--ink);white-space:pre}
.s{font-size:13px;fill:var(--soft)}.m{text-anchor:middle}.e{text-anchor:end}.w{font-weight:600}
.c1{fill:var(--red)}.c2{fill:var(--green)}.c3{fill:var(--yellow)}.c4{fill:var(--blue)}.b{font-weight:700}.d{fill:var(--soft)}
.h{visibility:hidden}.a{animation:LENGTH step-end infinite}
@media(prefers-reduced-motion:reduce){.a{animation:none}}
`

// A picture is the text of an SVG under construction.
type picture struct {
	film  *film
	rules strings.Builder
	body  strings.Builder
	known map[string]string // keyframes, and the class that has them
}

// svg returns the picture.
func (f *film) svg() string {
	p := &picture{film: f, known: map[string]string{}}
	width := float64(f.cols)*charWidth + 4*margin
	height := float64(cableTop + titleBar + f.rows*lineHeight + 2*margin + margin/2)
	p.cable(width)
	p.terminal(width, height)
	label := fmt.Sprintf("A terminal runs make test on another machine. The cable is pulled out for %.0f seconds and put back. All %d lines of output arrive, each once.",
		(f.mended - f.cut).Seconds(), len(f.printed))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n<title>%s</title>\n", width, height, width, height, label, label) +
		strings.ReplaceAll(head, "LENGTH", fmt.Sprintf("%.2fs", f.length.Seconds())) + p.rules.String() + "</style>\n" +
		fmt.Sprintf(`<rect x=".5" y=".5" width="%.0f" height="%.0f" rx="10" fill="var(--page)" stroke="var(--frame)"/>`+"\n", width-1, height-1) +
		p.body.String() + "</svg>\n"
}

// percent is a time as a part of the length.
func (p *picture) percent(at time.Duration) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", 100*at.Seconds()/p.film.length.Seconds()), "0"), ".") + "%"
}

// class returns the class of an animation with these keyframes.
func (p *picture) class(frames string) string {
	name := p.known[frames]
	if name == "" {
		name = fmt.Sprintf("k%d", len(p.known))
		p.known[frames] = name
		fmt.Fprintf(&p.rules, "@keyframes %s{%s}.%s{animation-name:%s}\n", name, frames, name, name)
	}
	return "a " + name
}

// during returns the class of what is visible from one time to another; 0: to the end.
func (p *picture) during(from, to time.Duration) string {
	frames := p.percent(from) + "{visibility:visible}"
	if from > 0 {
		frames = "0%{visibility:hidden}" + frames
	}
	if to == 0 {
		if from == 0 {
			return ""
		}
		return p.class(frames)
	}
	return "h " + p.class(frames+p.percent(to)+"{visibility:hidden}")
}

// terminal draws the window with the lines of the screen.
func (p *picture) terminal(width, height float64) {
	f := p.film
	top := float64(cableTop)
	fmt.Fprintf(&p.body, `<rect x="%d" y="%.0f" width="%.0f" height="%.0f" rx="8" fill="var(--term)" stroke="var(--frame)"/>`+"\n", margin, top, width-2*margin, height-top-margin)
	fmt.Fprintf(&p.body, `<path d="M%d %.0fv-22a8 8 0 0 1 8-8h%.0fa8 8 0 0 1 8 8v22z" fill="var(--bar)"/><text class="s m" x="%.0f" y="%.0f">the terminal here</text>`+"\n",
		margin, top+titleBar, width-2*margin-16, width/2, top+20)
	for i := range 3 {
		fmt.Fprintf(&p.body, `<circle cx="%d" cy="%.0f" r="5" fill="var(--frame)"/>`, margin+18+i*18, top+15)
	}
	x, y := float64(2*margin), top+titleBar+margin/2
	fmt.Fprintf(&p.body, "\n"+`<clipPath id="t"><rect x="%.0f" y="%.0f" width="%.0f" height="%d"/></clipPath><g clip-path="url(#t)">`, x-4, y, float64(f.cols)*charWidth+8, f.rows*lineHeight+4)
	var scroll strings.Builder
	for _, m := range f.tops {
		fmt.Fprintf(&scroll, "%s{transform:translateY(%dpx)}", p.percent(m.at), -m.value*lineHeight)
	}
	fmt.Fprintf(&p.body, `<g class="%s" style="transform:translateY(%dpx)">`+"\n", p.class(scroll.String()), -f.tops[len(f.tops)-1].value*lineHeight)
	var moves strings.Builder
	end := ""
	for _, m := range f.cursors {
		end = fmt.Sprintf("transform:translate(%.1fpx,%dpx)", float64(m.value%1000)*charWidth, m.value/1000*lineHeight)
		fmt.Fprintf(&moves, "%s{%s}", p.percent(m.at), end)
	}
	fmt.Fprintf(&p.body, `<rect class="%s" style="%s" x="%.0f" y="%.1f" width="%.1f" height="17" fill="var(--soft)" opacity=".6"/>`+"\n", p.class(moves.String()), end, x, y+2, charWidth)
	for _, v := range f.versions {
		fmt.Fprintf(&p.body, `<g class="%s">`, p.during(v.from, v.to))
		p.line(v.cells, x, y+float64(v.line*lineHeight)+fontSize)
		p.body.WriteString("</g>\n")
	}
	p.body.WriteString("</g></g>\n")
}

// line draws a line, one text for each part with the same style.
func (p *picture) line(cells []cell, x, y float64) {
	for i := 0; i < len(cells); {
		end := i + 1
		for end < len(cells) && cells[end].style == cells[i].style {
			end++
		}
		part := text(cells[i:end])
		start := i + len(part) - len(strings.TrimLeft(part, " "))
		if part = strings.TrimLeft(part, " "); part != "" {
			class := ""
			if s := cells[i].style; s != 0 {
				class = ` class="` + strings.Join(classes(s), " ") + `"`
			}
			fmt.Fprintf(&p.body, `<text%s x="%.1f" y="%.0f" textLength="%.1f">%s</text>`, class, x+float64(start)*charWidth, y, float64(len([]rune(part)))*charWidth, escape(part))
		}
		i = end
	}
}

func classes(s style) (names []string) {
	if c := s & colour; c != 0 {
		names = append(names, fmt.Sprintf("c%d", c))
	}
	if s&bold != 0 {
		names = append(names, "b")
	}
	if s&dim != 0 {
		names = append(names, "d")
	}
	return names
}

func escape(text string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(text)) // a strings.Builder has no errors
	return b.String()
}

// cable draws the two machines above the terminal, the cable between them, and how many lines each has seen.
func (p *picture) cable(width float64) {
	f := p.film
	left, right := 210.0, width-210
	middle := width / 2
	fmt.Fprintf(&p.body, `<g fill="none" stroke="var(--ink)" stroke-width="1.6"><rect x="40" y="28" width="40" height="27" rx="3"/><path d="m33 60h54"/><rect x="%.0f" y="24" width="34" height="15" rx="2"/><rect x="%.0f" y="43" width="34" height="15" rx="2"/></g>`+"\n", width-78, width-78)
	fmt.Fprintf(&p.body, `<circle cx="%.0f" cy="31.500" r="2" fill="var(--green)"/><circle cx="%.0f" cy="50.500" r="2" fill="var(--green)"/>`+"\n", width-70, width-70)
	fmt.Fprintf(&p.body, `<text class="w" x="102" y="40">here</text><text class="w e" x="%.0f" y="40">build</text>`+"\n", width-94)
	whole := fmt.Sprintf(`<path d="M%.0f 42H%.0f" stroke="var(--green)" stroke-width="4" stroke-linecap="round"/>`, left, right)
	fmt.Fprintf(&p.body, `<g class="%s">%s</g><g class="%s">%s</g>`+"\n", p.during(0, f.cut), whole, p.during(f.mended, 0), whole)
	fmt.Fprintf(&p.body, `<g class="%s" stroke="var(--red)" stroke-width="4" stroke-linecap="round" fill="none"><path d="M%.0f 42H%.0fm0-7v14M%.0f 42H%.0fq-22 0-28 14m-8-3l15 6"/></g>`+"\n",
		p.during(f.cut, f.mended), left, middle-45, right, middle+75)
	p.label("c1 m w", middle, 84, "the cable is pulled out", f.cut, f.mended)
	done := f.arrived[len(f.arrived)-1]
	p.label("s m", middle, 84, "connected", 0, f.cut)
	p.label("s m", middle, 84, "connected again", f.mended, done)
	p.label("c2 m w", middle, 84, fmt.Sprintf("all %d lines are here, each once", len(f.printed)), done, 0)
	p.count("s", 102, "arrived", f.arrived)
	p.count("s e", width-94, "printed", f.printed)
}

// label draws a text that is there for a while.
func (p *picture) label(class string, x, y float64, text string, from, to time.Duration) {
	fmt.Fprintf(&p.body, `<text class="%s %s" x="%.0f" y="%.0f">%s</text>`+"\n", class, p.during(from, to), x, y, escape(text))
}

// count draws how many lines there have been.
func (p *picture) count(class string, x float64, verb string, times []time.Duration) {
	from, n := time.Duration(0), 0
	for i, at := range times {
		if i+1 < len(times) && times[i+1] == at {
			continue // more lines at the same time
		}
		p.label(class, x, 60, fmt.Sprintf("%d %s", n, verb), from, at)
		from, n = at, i+1
	}
	p.label(class, x, 60, fmt.Sprintf("%d %s", n, verb), from, 0)
}
