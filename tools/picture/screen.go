package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A style is how a cell looks: a colour of the terminal, 0 for none, 1 to 7 for red to white, and flags.
type style uint8

const (
	colour style = 7
	bold   style = 8
	dim    style = 16
)

type cell struct {
	char  rune
	style style
}

// A screen carries out what a program prints on a terminal. Lines that have scrolled off the top are kept.
type screen struct {
	cols, rows int
	lines      [][]cell // all lines from the first one on
	top        int      // the first visible line
	row, col   int      // the cursor; row counts from the first line
	savedRow   int
	savedCol   int
	pen        style
	pending    string // the beginning of a control sequence
}

func newScreen(cols, rows int) *screen {
	return &screen{cols: cols, rows: rows, lines: make([][]cell, 1)}
}

// write prints a text. An error is a sequence that the screen does not know: the picture would be wrong.
func (s *screen) write(text string) error {
	text, s.pending = s.pending+text, ""
	for text != "" {
		if text[0] == '\x1b' {
			length, err := s.sequence(text)
			if err != nil {
				return err
			}
			if length == 0 {
				s.pending = text
				return nil
			}
			text = text[length:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch r {
		case '\n':
			s.down()
		case '\r':
			s.col = 0
		case '\b':
			s.col = max(0, s.col-1)
		case '\t':
			s.col = min(s.cols-1, s.col/8*8+8)
		default:
			if r < ' ' {
				return fmt.Errorf("unknown control character %q", r)
			}
			s.put(r)
		}
	}
	return nil
}

func (s *screen) put(r rune) {
	if s.col == s.cols {
		s.col = 0
		s.down()
	}
	line := s.line()
	for len(*line) <= s.col {
		*line = append(*line, cell{' ', 0})
	}
	(*line)[s.col] = cell{r, s.pen}
	s.col++
}

// line returns the line of the cursor.
func (s *screen) line() *[]cell {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	return &s.lines[s.row]
}

// down moves the cursor down, and scrolls at the last line.
func (s *screen) down() {
	s.row++
	s.line()
	s.top = max(s.top, s.row-s.rows+1)
}

// sequence carries out the control sequence at the beginning of a text, and returns its length; 0: it is not complete.
func (s *screen) sequence(text string) (length int, err error) {
	if len(text) < 2 {
		return 0, nil
	}
	switch text[1] {
	case 'D':
		s.down()
	case '7':
		s.savedRow, s.savedCol = s.row, s.col
	case '8':
		s.row, s.col = s.savedRow, s.savedCol
	case ']': // a title
		end := strings.IndexByte(text, '\a')
		return end + 1, nil
	case '[':
		end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return 0, nil
		}
		return end + 3, s.control(text[2:2+end], text[2+end])
	default:
		return 0, fmt.Errorf("unknown sequence %q", text[:2])
	}
	return 2, nil
}

// control carries out ESC [ parameters final.
func (s *screen) control(parameters string, final byte) error {
	n, _ := strconv.Atoi(parameters) // the sequences below have at most one number
	switch final {
	case 'A':
		s.row = max(s.top, s.row-max(n, 1))
	case 'B':
		s.row = min(s.top+s.rows-1, s.row+max(n, 1))
	case 'C':
		s.col = min(s.cols-1, s.col+max(n, 1))
	case 'D':
		s.col = max(0, s.col-max(n, 1))
	case 'J':
		if n != 0 {
			return fmt.Errorf("unknown sequence ESC [ %s J", parameters)
		}
		s.erase()
		s.lines = s.lines[:s.row+1]
	case 'K':
		switch n {
		case 0:
			s.erase()
		case 2:
			*s.line() = nil
		default:
			return fmt.Errorf("unknown sequence ESC [ %s K", parameters)
		}
	case 'm':
		return s.setPen(parameters)
	case 'h', 'l': // modes of the keyboard and of the cursor
	default:
		return fmt.Errorf("unknown sequence ESC [ %s %c", parameters, final)
	}
	return nil
}

// erase removes the line of the cursor from the cursor on.
func (s *screen) erase() {
	line := s.line()
	*line = (*line)[:min(len(*line), s.col)]
}

func (s *screen) setPen(parameters string) error {
	for _, p := range strings.Split(parameters, ";") {
		switch n, _ := strconv.Atoi(p); {
		case n == 0:
			s.pen = 0
		case n == 1:
			s.pen |= bold
		case n == 2:
			s.pen |= dim
		case n >= 31 && n <= 37:
			s.pen = s.pen&^colour | style(n-30)
		case n == 39:
			s.pen &^= colour
		default:
			return fmt.Errorf("unknown colour %s", p)
		}
	}
	return nil
}
