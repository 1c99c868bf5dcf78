package jsonx

import (
	"bytes"
	"encoding/base64"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Reader reads one JSON value from bytes in hand. It is not safe for concurrent use.
type Reader struct {
	src   []byte
	pos   int
	last  int      // where the value begins that Fail is about
	depth int      // of open arrays and objects
	raw   uint64   // bit d: the open object at depth d+1 has names that are data, not fields; so have all deeper than 64
	names []string // the names met in the open objects, those of the innermost last
	buf   []byte   // the text of a string that has escapes
	probe bool     // looks for bytes that are not JSON, and for nothing else
	err   *Error

	maxDepth int
}

// NewReader returns a reader of b, no deeper than [MaxDepth]. It keeps b and never changes it.
func NewReader(b []byte) *Reader { return &Reader{src: b, maxDepth: MaxDepth} }

// NewReplyReader is [NewReader] with [MaxReplyDepth].
func NewReplyReader(b []byte) *Reader { return &Reader{src: b, maxDepth: MaxReplyDepth} }

// Reset makes r a new reader of b, no deeper than maxDepth, that uses r's memory again unless that has become
// large.
func (r *Reader) Reset(b []byte, maxDepth int) {
	names, buf := r.names[:0], r.buf[:0]
	if cap(names) > 1<<10 {
		names = nil
	}
	if cap(buf) > 1<<16 {
		buf = nil
	}
	clear(names[:cap(names)]) // they are parts of the old input
	*r = Reader{src: b, names: names, buf: buf, maxDepth: maxDepth}
}

// End returns the first error; bytes after the value are one.
func (r *Reader) End() error {
	r.atEnd()
	if r.err != nil {
		return r.err
	}
	return nil
}

// Err returns the first error so far, or nil.
func (r *Reader) Err() *Error { return r.err }

func (r *Reader) atEnd() {
	if r.next(); r.pos < len(r.src) {
		r.unexpected("the end")
	}
}

// next moves to the first byte that is not space and returns it; at the end it returns 0.
func (r *Reader) next() byte {
	if r.pos < len(r.src) && r.src[r.pos] > ' ' {
		return r.src[r.pos]
	}
	return r.nextAfterSpace()
}

func (r *Reader) nextAfterSpace() byte {
	for r.pos < len(r.src) {
		switch c := r.src[r.pos]; c {
		case ' ', '\n', '\r', '\t':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// Kind returns the first byte of the next value: one of { [ " t f n - and the digits, if it is JSON. At the end
// and after an error it is 0.
func (r *Reader) Kind() byte { return r.next() }

// Fields ranges over the names of the members of the object at hand, in lowerCamelCase whichever way they
// were written. The body reads the value; a value that it does not read is skipped, and so is the rest of
// the object when it leaves the loop. Null instead of an object has no members.
//
// The name is part of the input: it must be copied to be kept.
func (r *Reader) Fields() iter.Seq[string] {
	return func(yield func(string) bool) { r.members(yield, fieldNames) }
}

// Present is [Reader.Fields] without the members whose value is null.
func (r *Reader) Present() iter.Seq[string] {
	return func(yield func(string) bool) { r.members(yield, presentNames) }
}

// RawFields is [Reader.Fields] for an object whose names are data: they come as they are and may be kept.
func (r *Reader) RawFields() iter.Seq[string] {
	return func(yield func(string) bool) { r.members(yield, dataNames) }
}

// Elems ranges over the indexes of the array at hand. The body reads the element; one that it does not read
// is skipped, and so is the rest when it leaves the loop. Null instead of an array has no elements.
func (r *Reader) Elems() iter.Seq[int] {
	return func(yield func(int) bool) { r.elements(yield) }
}

// nameMode is how the names of an object are read.
type nameMode uint8

const (
	fieldNames   nameMode = iota // fields of a message
	presentNames                 // the same, those that are null passed over
	dataNames                    // as they are
)

// members reads an object. A nil yield skips every value.
func (r *Reader) members(yield func(string) bool, mode nameMode) {
	if !r.open('{', "an object") {
		return
	}
	start, base := r.last, len(r.names)
	if mode == dataNames {
		r.raw |= 1 << (r.depth - 1)
	} else {
		r.raw &^= 1 << (r.depth - 1)
	}
	var seen map[string]struct{}
	for first := true; r.more(first, '}'); first = false {
		name := r.name(mode)
		if r.next() != ':' {
			r.unexpected("':'")
			return
		}
		r.pos++
		c := r.next()
		value := r.pos
		r.last = value
		if seen = r.meet(name, base, seen); r.err != nil {
			return
		}
		switch {
		case yield == nil:
		case mode == presentNames && c == 'n':
		default:
			if mode == dataNames {
				name = strings.Clone(name)
			}
			if !yield(name) {
				yield = nil
			}
		}
		if r.pos == value {
			r.Skip()
		}
	}
	r.depth--
	r.names = r.names[:base]
	r.last = start
}

func (r *Reader) elements(yield func(int) bool) {
	if !r.open('[', "an array") {
		return
	}
	start := r.last
	for i := 0; r.more(i == 0, ']'); i++ {
		r.next()
		value := r.pos
		r.last = value
		if yield != nil && !yield(i) {
			yield = nil
		}
		if r.pos == value {
			r.Skip()
		}
	}
	r.depth--
	r.last = start
}

// open enters an array or object. It is false for null and after an error.
func (r *Reader) open(bracket byte, want string) bool {
	c := r.next()
	r.last = r.pos
	switch {
	case c == bracket && r.depth < r.maxDepth:
		r.depth++
		r.pos++
		return true
	case c == bracket:
		r.fail(true, r.pos, "nested too deeply, the limit is "+strconv.Itoa(r.maxDepth))
	case c == 'n':
		r.literal("null")
	default:
		r.mismatch(want)
	}
	return false
}

// more reports whether another member or element follows, and passes over the comma before it or the bracket
// after the last.
func (r *Reader) more(first bool, bracket byte) bool {
	c := r.next()
	switch {
	case r.err != nil:
		return false
	case c == bracket:
		r.pos++
		return false
	case first:
		return true
	case c == ',':
		r.pos++
		return true
	}
	r.unexpected("',' or " + quoteByte(bracket))
	return false
}

// name reads a member's name. It is part of the input unless it had to be changed.
func (r *Reader) name(mode nameMode) string {
	if r.next() != '"' {
		r.unexpected("a name in quotes")
		return ""
	}
	r.last = r.pos
	text := r.text()
	var name string
	if !r.escaped(text) {
		name = unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // the input does not change while it is read
	} else {
		name = string(text) // it had escapes and stands in r.buf
	}
	if mode != dataNames {
		return canonical(name)
	}
	return name
}

const fewNames = 16 // up to here a scan is cheaper than a map

// meet notes a name of the object whose names begin at base, and fails if it is there already.
func (r *Reader) meet(name string, base int, seen map[string]struct{}) map[string]struct{} {
	if r.probe {
		return nil
	}
	dup := false
	switch n := len(r.names) - base; {
	case n < fewNames:
		for _, old := range r.names[base:] {
			if old == name {
				dup = true
			}
		}
	case seen == nil:
		seen = make(map[string]struct{}, 4*fewNames)
		for _, old := range r.names[base:] {
			seen[old] = struct{}{}
		}
		fallthrough
	default:
		_, dup = seen[name]
		seen[name] = struct{}{}
	}
	if dup {
		r.Fail("the name is there twice")
		return seen
	}
	r.names = append(r.names, name)
	return seen
}

// Skip passes over the next value, whatever it is.
func (r *Reader) Skip() {
	switch c := r.next(); c {
	case '{':
		r.members(nil, dataNames)
	case '[':
		r.elements(nil)
	case '"':
		r.last = r.pos
		r.text()
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

// Raw returns the next value as it is written, without the space around it. It is part of the input: it must be
// copied to be kept.
func (r *Reader) Raw() []byte {
	r.next()
	start := r.pos
	r.Skip()
	if r.err != nil {
		return nil
	}
	return r.src[start:r.pos:r.pos]
}

// Null passes over the next value if it is null, and reports whether it was.
func (r *Reader) Null() bool { return r.next() == 'n' && r.literal("null") }

// Bool reads true or false. Null is false.
func (r *Reader) Bool() bool {
	switch r.next() {
	case 't':
		return r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.mismatch("true or false")
	}
	return false
}

func (r *Reader) literal(want string) bool {
	r.last = r.pos
	end := r.pos + len(want)
	if end > len(r.src) || string(r.src[r.pos:end]) != want {
		for i := range len(want) {
			if r.pos+i >= len(r.src) || r.src[r.pos+i] != want[i] {
				r.pos += i
				break
			}
		}
		r.unexpected(want)
		return false
	}
	r.pos = end
	return true
}

// String reads a string. Null is "".
func (r *Reader) String() string { return string(r.Text()) }

// Text is [Reader.String] without a copy: the bytes hold until the next call and must not be changed.
func (r *Reader) Text() []byte {
	switch r.next() {
	case '"':
		r.last = r.pos
		return r.text()
	case 'n':
		r.literal("null")
	default:
		r.mismatch("a string")
	}
	return nil
}

// Bytes reads a string of base64: the standard or the URL-safe alphabet, with or without padding. Null is nil,
// "" is not.
func (r *Reader) Bytes() []byte {
	if r.Null() {
		return nil
	}
	text := r.Text()
	if r.err != nil {
		return nil
	}
	if r.escaped(text) && bytes.ContainsAny(text, "\r\n") { // which the decoder would pass over
		r.Fail("must be base64")
		return nil
	}
	if n := len(text); n%4 == 0 && n > 0 && text[n-1] == '=' {
		if text = text[:n-1]; text[n-2] == '=' {
			text = text[:n-2]
		}
	}
	enc := base64.RawStdEncoding
	if bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0 {
		enc = base64.RawURLEncoding
	}
	out := make([]byte, enc.DecodedLen(len(text)))
	if _, err := enc.Decode(out, text); err != nil {
		r.Fail("must be base64")
		return nil
	}
	return out
}

// Int32 reads a whole number, written in any way JSON can write one, also in quotes. Null is 0.
func (r *Reader) Int32() int32 {
	var lit []byte
	switch c := r.next(); {
	case c == '"':
		r.last = r.pos
		lit = r.text()
		if end := scanNumber(lit, 0); end < 0 || end != len(lit) {
			r.Fail("must be a whole number")
			return 0
		}
	case c == '-' || '0' <= c && c <= '9':
		lit = r.number()
	case c == 'n':
		r.literal("null")
		return 0
	default:
		r.mismatch("a whole number")
		return 0
	}
	if r.err != nil {
		return 0
	}
	n, whole := integer(lit)
	switch {
	case !whole:
		r.Fail("must be a whole number")
	case n < math.MinInt32 || n > math.MaxInt32:
		r.Fail("must be between -2147483648 and 2147483647")
	default:
		return int32(n)
	}
	return 0
}

func (r *Reader) number() []byte {
	start := r.pos
	r.last = start
	end := scanNumber(r.src, start)
	if end < 0 {
		if r.pos < len(r.src) && kindName(r.src[r.pos]) == "a number" {
			r.pos = -end - 1
			r.unexpected("a digit")
		} else {
			r.unexpected("a value")
		}
		return nil
	}
	r.pos = end
	return r.src[start:end]
}

// scanNumber returns the end of the number at i. If there is none it returns -1-n, n being where a digit is
// missing.
func scanNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digits(b, i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i = digits(b, i)
	}
	return i
}

// digits returns the end of the digits at i, or -1-i if there are none.
func digits(b []byte, i int) int {
	start := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1 - i
	}
	return i
}

// integer returns the value of a JSON number, and whether it is whole. One beyond int32 comes out as some
// value beyond int32.
func integer(lit []byte) (n int64, whole bool) {
	neg := false
	if lit[0] == '-' {
		neg, lit = true, lit[1:]
	}
	const far = 1 << 40 // beyond any int32, and far from overflow
	var scale, exp int64
	zeros := int64(0) // not yet in n: zeros at the end say nothing before another digit comes
	fraction, i := false, 0
	for ; i < len(lit) && lit[i]|0x20 != 'e'; i++ {
		if lit[i] == '.' {
			fraction = true
			continue
		}
		if fraction {
			scale--
		}
		if lit[i] == '0' {
			zeros++
			continue
		}
		n = shift(n, zeros+1, far)
		n = min(n+int64(lit[i]-'0'), far)
		zeros = 0
	}
	if n == 0 {
		return 0, true
	}
	if i < len(lit) {
		i++
		down := lit[i] == '-'
		if lit[i] == '-' || lit[i] == '+' {
			i++
		}
		for ; i < len(lit); i++ {
			exp = min(exp*10+int64(lit[i]-'0'), far)
		}
		if down {
			exp = -exp
		}
	}
	if scale += zeros + exp; scale < 0 {
		return 0, false
	}
	n = shift(n, scale, far)
	if neg {
		n = -n
	}
	return n, true
}

// shift returns n with so many zeros behind it, but not more than limit.
func shift(n, zeros, limit int64) int64 {
	for ; zeros > 0 && n > 0 && n < limit; zeros-- {
		n *= 10
	}
	return min(n, limit)
}

// Time reads an RFC 3339 time with any offset and up to nine digits of fraction, in the years 1 to 9999. It is in
// UTC. Null is the zero time.
func (r *Reader) Time() time.Time {
	if r.Null() {
		return time.Time{}
	}
	text := r.Text()
	if r.err != nil {
		return time.Time{}
	}
	t, ok := parseTime(text)
	if !ok {
		r.Fail("must be an RFC 3339 time such as 2026-01-31T12:00:00Z")
	}
	return t
}

func parseTime(b []byte) (time.Time, bool) {
	// 2026-01-31T12:00:00 is 19 bytes, and an offset follows.
	if len(b) < 20 || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return time.Time{}, false
	}
	year, month, day := decimal(b[0:4]), decimal(b[5:7]), decimal(b[8:10])
	hour, minute, sec := decimal(b[11:13]), decimal(b[14:16]), decimal(b[17:19])
	if year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23 ||
		minute < 0 || minute > 59 || sec < 0 || sec > 59 {
		return time.Time{}, false
	}
	b = b[19:]
	nanos := 0
	if b[0] == '.' {
		end := digits(b, 1)
		if end < 0 || end > 10 {
			return time.Time{}, false
		}
		nanos = decimal(b[1:end])
		for range 10 - end {
			nanos *= 10
		}
		b = b[end:]
	}
	offset, ok := parseOffset(b)
	t := time.Date(year, time.Month(month), day, hour, minute, sec, nanos, time.UTC)
	if !ok || t.Day() != day { // the month is shorter
		return time.Time{}, false
	}
	t = t.Add(-offset)
	return t, t.Year() >= 1 && t.Year() <= 9999
}

func parseOffset(b []byte) (time.Duration, bool) {
	if len(b) == 1 && b[0] == 'Z' {
		return 0, true
	}
	if len(b) != 6 || b[3] != ':' || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hour, minute := decimal(b[1:3]), decimal(b[4:6])
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 {
		return 0, false
	}
	d := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
	if b[0] == '-' {
		d = -d
	}
	return d, true
}

// decimal returns the number that b's digits make, at most nine of them, or -1 if one is no digit.
func decimal(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// escaped reports whether the string that was read last has escapes, so that its text is not part of the input.
func (r *Reader) escaped(text []byte) bool { return len(text) != r.pos-r.last-len(`""`) }

// text reads the string at hand and returns what it says: part of the input, or r.buf if it has escapes.
func (r *Reader) text() []byte {
	start := r.pos + 1
	end, ascii := plain(r.src, start)
	if end >= len(r.src) || r.src[end] != '"' {
		return r.unescape(start, end, ascii)
	}
	if !ascii && !r.utf8(start, end) {
		return nil
	}
	r.pos = end + 1
	return r.src[start:end]
}

// unescape reads on in a string where plain text stops for the first time.
func (r *Reader) unescape(start, end int, ascii bool) []byte {
	buf := r.buf[:0]
	for {
		if !ascii && !r.utf8(start, end) {
			return nil
		}
		buf = append(buf, r.src[start:end]...)
		r.pos = end
		switch {
		case end >= len(r.src):
			r.unexpected("the quote at the end of a string")
			return nil
		case r.src[end] == '"':
			r.pos++
			r.buf = buf
			return buf
		case r.src[end] != '\\':
			r.fail(true, end, "control character in a string, it must be written as an escape")
			return nil
		}
		if buf = r.escape(buf); r.err != nil {
			return nil
		}
		start = r.pos
		end, ascii = plain(r.src, start)
	}
}

// escape appends what the escape at hand stands for.
func (r *Reader) escape(buf []byte) []byte {
	at := r.pos
	if at+1 >= len(r.src) {
		r.pos = at + 1
		r.unexpected("the rest of an escape")
		return buf
	}
	r.pos += 2
	switch c := r.src[at+1]; c {
	case '"', '\\', '/':
		return append(buf, c)
	case 'b':
		return append(buf, '\b')
	case 'f':
		return append(buf, '\f')
	case 'n':
		return append(buf, '\n')
	case 'r':
		return append(buf, '\r')
	case 't':
		return append(buf, '\t')
	case 'u':
		return r.escapedRune(buf, at)
	}
	r.fail(true, at, "unknown escape in a string")
	return buf
}

func (r *Reader) escapedRune(buf []byte, at int) []byte {
	c := r.hex4()
	if utf16.IsSurrogate(c) {
		low := rune(-1)
		if r.pos+1 < len(r.src) && r.src[r.pos] == '\\' && r.src[r.pos+1] == 'u' {
			r.pos += 2
			low = r.hex4()
		}
		if c = utf16.DecodeRune(c, low); c == utf8.RuneError {
			r.fail(true, at, "half of a surrogate pair in a string")
		}
	}
	return utf8.AppendRune(buf, c)
}

// hex4 reads four hexadecimal digits.
func (r *Reader) hex4() rune {
	var c rune
	for range 4 {
		if r.pos >= len(r.src) {
			r.unexpected("a hexadecimal digit")
			return 0
		}
		switch d := r.src[r.pos]; {
		case '0' <= d && d <= '9':
			c = c<<4 | rune(d-'0')
		case 'a' <= d|0x20 && d|0x20 <= 'f':
			c = c<<4 | rune(d|0x20-'a'+10)
		default:
			r.unexpected("a hexadecimal digit")
			return 0
		}
		r.pos++
	}
	return c
}

func (r *Reader) utf8(start, end int) bool {
	if utf8.Valid(r.src[start:end]) {
		return true
	}
	for c := r.src[start:end]; len(c) > 0; {
		if _, n := utf8.DecodeRune(c); n > 1 || c[0] < utf8.RuneSelf {
			c = c[n:]
			continue
		}
		r.fail(true, end-len(c), "a string is not UTF-8")
		break
	}
	return false
}
