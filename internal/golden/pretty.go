package golden

import (
	"bytes"
	"encoding/json"
	"strings"
)

// compact returns JSON without white space between its parts, and what is no JSON as it is.
func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

const width = 110

// pretty returns compact JSON over several lines: what fits into one stays in one. Strings, numbers and the
// order of names are as they came.
func pretty(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		rest = prettyValue(&b, rest, 0)
	}
	return b.String()
}

// prettyValue writes the value that s begins with, and returns what follows it.
func prettyValue(b *strings.Builder, s string, depth int) string {
	end := valueEnd(s)
	if s[0] != '{' && s[0] != '[' || end+2*depth <= width {
		b.WriteString(spaced(s[:end]))
		return s[end:]
	}
	rest := s
	for rest[0] == '{' || rest[0] == '[' || rest[0] == ',' {
		if rest[0] != ',' && len(rest) != len(s) {
			break
		}
		b.WriteString(rest[:1] + "\n" + strings.Repeat("  ", depth+1))
		rest = rest[1:]
		if s[0] == '{' {
			name := valueEnd(rest)
			b.WriteString(rest[:name] + ": ")
			rest = rest[name+1:]
		}
		rest = prettyValue(b, rest, depth+1)
	}
	b.WriteString("\n" + strings.Repeat("  ", depth) + rest[:1])
	return rest[1:]
}

// valueEnd returns the length of the value that s begins with.
func valueEnd(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return i + 1 + min(depth, 0)
			}
		case depth == 0 && (c == ',' || c == ':'):
			return i
		}
	}
	return len(s)
}

// spaced puts a space behind the commas and colons of compact JSON.
func spaced(s string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		b.WriteByte(s[i])
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
			b.WriteByte(s[i])
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}
