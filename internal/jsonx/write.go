package jsonx

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"time"
	"unicode/utf8"
	"unsafe"
)

// AppendString appends s as a JSON string. Only what JSON must escape is escaped: the quote, the backslash
// and control characters. Each byte that is not UTF-8 becomes U+FFFD.
func AppendString(b []byte, s string) []byte {
	in := unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // read only
	b = append(b, '"')
	known := false // that the rest is UTF-8
	for start := 0; ; {
		end, ascii := plain(in, start)
		if !ascii && !known {
			if known = utf8.Valid(in[start:]); !known {
				return append(appendLossy(b, s[start:]), '"')
			}
		}
		b = append(b, s[start:end]...)
		if end == len(s) {
			return append(b, '"')
		}
		b = appendEscape(b, s[end])
		start = end + 1
	}
}

// appendLossy appends the inside of a string that is not UTF-8 throughout.
func appendLossy(b []byte, s string) []byte {
	for _, c := range s { // ranging yields U+FFFD for every bad byte
		if c < ' ' || c == '"' || c == '\\' {
			b = appendEscape(b, byte(c))
		} else {
			b = utf8.AppendRune(b, c)
		}
	}
	return b
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// AppendBase64 appends raw as a JSON string of padded standard base64.
func AppendBase64(b, raw []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, raw)
	return append(b, '"')
}

// AppendTime appends t as a JSON string: RFC 3339 in UTC with three digits of fraction, the rest cut off. The
// year must be one of 0 to 9999.
func AppendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, sec := t.Clock()
	b = append(b, '"')
	b = append2(append2(b, year/100), year%100)
	b = append2(append(b, '-'), int(month))
	b = append2(append(b, '-'), day)
	b = append2(append(b, 'T'), hour)
	b = append2(append(b, ':'), minute)
	b = append2(append(b, ':'), sec)
	ms := t.Nanosecond() / int(time.Millisecond)
	b = append2(append(b, '.', byte('0'+ms/100)), ms%100)
	return append(b, 'Z', '"')
}

func append2(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// AppendCompact appends a JSON value without the space between its parts: strings, numbers and the order of
// names stay to the byte, and the result is one line. What is not JSON stays wrong, but on one line too.
func AppendCompact(b, raw []byte) []byte {
	start, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		if !quoted {
			if quoted = raw[i] == '"'; raw[i] <= ' ' {
				b = append(b, raw[start:i]...)
				start = i + 1
			}
			continue
		}
		if i, _ = plain(raw, i); i == len(raw) {
			break
		}
		switch c := raw[i]; {
		case c == '"':
			quoted = false
		case c < ' ': // in no JSON string
			b = appendEscape(append(b, raw[start:i]...), c)
			start = i + 1
		case i+1 < len(raw) && raw[i+1] >= ' ':
			i++ // what the backslash escapes
		}
	}
	return append(b, raw[start:]...)
}

const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	quotes = '"' * ones
	slants = '\\' * ones
	spaces = ' ' * ones
)

// plain returns the first place at or after i where b has a quote, a backslash or a control character, or
// len(b), and whether all before it is ASCII. It passes over plain ASCII 32 bytes at a time and looks at the rest in
// words of 8: subtracting from a byte that is too small borrows, which sets its high bit; the lowest such bit is exact.
func plain(b []byte, i int) (end int, ascii bool) {
	rest := b[i:]
	for ; len(rest) >= 32; rest = rest[32:] {
		w0, w1 := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
		w2, w3 := binary.LittleEndian.Uint64(rest[16:]), binary.LittleEndian.Uint64(rest[24:])
		if (special(w0)|special(w1)|special(w2)|special(w3))&highs != 0 {
			break
		}
	}
	var all uint64
	for ; len(rest) >= 8; rest = rest[8:] {
		w := binary.LittleEndian.Uint64(rest)
		q, s := w^quotes, w^slants
		hit := ((q-ones)&^q | (s-ones)&^s | (w-spaces)&^w) & highs
		if hit != 0 {
			n := bits.TrailingZeros64(hit) &^ 7
			all |= w & (1<<n - 1)
			return len(b) - len(rest) + n/8, all&highs == 0
		}
		all |= w
	}
	for i, c := range rest {
		if c < ' ' || c == '"' || c == '\\' {
			return len(b) - len(rest) + i, all&highs == 0
		}
		all |= uint64(c)
	}
	return len(b), all&highs == 0
}

// special has a high bit set if a byte of w is a quote, a backslash, a control character or not ASCII.
func special(w uint64) uint64 { return (w ^ quotes - ones) | (w ^ slants - ones) | (w - spaces) | w }
