package textstats

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// wordsPerMinute is the pace of a reader.
const wordsPerMinute = 200

// Stats is what a text consists of.
type Stats struct {
	// Characters are what a reader takes for one: the extended grapheme clusters of UAX #29. A letter with
	// its accents, a flag and a family emoji are one each, and so is a CR LF.
	Characters int `json:"characters"`
	// Bytes is the length in UTF-8.
	Bytes int `json:"bytes"`
	// Words are the segments of UAX #29 that have a letter or a number in them, so that punctuation, white
	// space and emoji are none. "don't", "3.14" and "www.example.org" are one each, "well-known" is two.
	// Without a dictionary there are no word boundaries in Chinese, Hiragana, Thai and the like: each
	// ideograph, and each letter with its marks, is a word.
	Words int `json:"words"`
	// Sentences are those of UAX #29 that have a letter or a number in them. The rules know no
	// abbreviations: a full stop before a space and a capital ends a sentence, even in "Dr. Smith".
	Sentences int `json:"sentences"`
	// Lines end in LF, CR LF, CR, NEL (U+0085), LS (U+2028) or PS (U+2029). A break at the end of the text
	// begins no further line.
	Lines int `json:"lines"`
	// Paragraphs are blocks of lines that are not blank. A blank line, or a PS, ends one.
	Paragraphs int `json:"paragraphs"`
	// UniqueWords are the words that differ in more than case and in more than the encoding of their
	// accents (a canonical caseless match, Unicode D145).
	UniqueWords int `json:"uniqueWords"`
	// LongestWord is the word with the most characters; the first of them where several have as many.
	LongestWord string `json:"longestWord"`
	// ReadingSeconds is the time it takes to read the words at 200 a minute, rounded up.
	ReadingSeconds int `json:"readingSeconds"`
}

// Count counts the whole text. Bytes that are not UTF-8 count as replacement characters.
func Count(text string) Stats {
	c := NewCounter(text)
	for c.Step(len(text)) {
	}
	return c.Stats()
}

// Counter counts a text step by step, so that whoever counts a long one can stop or say how far it is. It
// is not safe for concurrent use.
type Counter struct {
	text      string
	done      int // bytes of text that were counted
	stats     Stats
	graphemes *graphemes.Iterator[string]
	words     *words.Iterator[string]
	sentences *sentences.Iterator[string]

	spellings map[string]struct{} // every word as it is written, and folded
	longest   int                 // characters of stats.LongestWord

	cr   bool // the last character was a CR, to which an LF belongs
	line bool // the line has begun
	ink  bool // there is more than white space on the line
	para bool // the paragraph has begun
}

// NewCounter returns a Counter at the beginning of text.
func NewCounter(text string) *Counter {
	mended := strings.ToValidUTF8(text, string(utf8.RuneError))
	return &Counter{
		text:      mended,
		stats:     Stats{Bytes: len(text)},
		graphemes: graphemes.FromString(mended),
		words:     words.FromString(mended),
		sentences: sentences.FromString(condense(mended)),
		spellings: make(map[string]struct{}),
	}
}

// Step counts about n bytes more, at least one, and reports whether there are more after them. A word or a
// sentence that begins within the step is counted to its end.
func (c *Counter) Step(n int) bool {
	end := len(c.text)
	if n = max(n, 1); n < end-c.done {
		end = c.done + n
	}
	for c.graphemes.End() < end && c.graphemes.Next() {
		c.stats.Characters++
	}
	for c.words.End() < end && c.words.Next() {
		if w := c.words.Value(); speaks(w) {
			c.word(w)
		}
	}
	for c.sentences.End() < end && c.sentences.Next() { // of the condensed text: ahead, and complete at the end
		if speaks(c.sentences.Value()) {
			c.stats.Sentences++
		}
	}
	for c.done < end {
		r, size := utf8.DecodeRuneInString(c.text[c.done:])
		c.done += size
		c.layout(r)
	}
	return c.done < len(c.text)
}

// Percent is how much of the text was counted, from 0 to 100, rounded down.
func (c *Counter) Percent() int {
	if len(c.text) == 0 {
		return 100
	}
	return int(int64(c.done) * 100 / int64(len(c.text)))
}

// Stats returns the counts so far: those of the text when Step has returned false.
func (c *Counter) Stats() Stats {
	s := c.stats
	s.ReadingSeconds = (s.Words*60 + wordsPerMinute - 1) / wordsPerMinute
	return s
}

func (c *Counter) word(w string) {
	c.stats.Words++
	if _, ok := c.spellings[w]; !ok {
		c.spellings[w] = struct{}{}
		folded := fold(w)
		if _, ok := c.spellings[folded]; !ok || folded == w {
			c.spellings[folded] = struct{}{}
			c.stats.UniqueWords++
		}
	}
	if len(w) <= c.longest { // no word has more characters than bytes
		return
	}
	n := 0
	for g := graphemes.FromString(w); g.Next(); {
		n++
	}
	if n > c.longest {
		c.longest, c.stats.LongestWord = n, w
	}
}

// layout counts lines and paragraphs, each at its first character.
func (c *Counter) layout(r rune) {
	second := r == '\n' && c.cr
	c.cr = r == '\r'
	switch {
	case second:
	case isBreak(r):
		if !c.line {
			c.stats.Lines++
		}
		if !c.ink || r == '\u2029' {
			c.para = false
		}
		c.line, c.ink = false, false
	default:
		if !c.line {
			c.line = true
			c.stats.Lines++
		}
		if !c.ink && !unicode.IsSpace(r) {
			c.ink = true
			if !c.para {
				c.para = true
				c.stats.Paragraphs++
			}
		}
	}
}

// fold returns a form of w that is equal for words that differ in case or normal form only. Folding it
// again changes nothing.
func fold(w string) string {
	for i := range len(w) {
		if w[i] >= utf8.RuneSelf {
			return norm.NFD.String(cases.Fold().String(norm.NFD.String(w)))
		}
	}
	return strings.ToLower(w)
}

// speaks reports whether s has a letter or a number.
func speaks(s string) bool { return strings.IndexFunc(s, isWordRune) >= 0 }

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

func isBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// maxSilence is how many characters in a row condense keeps that could never be a sentence.
const maxSilence = 16

// condense returns text as the sentence rules are to see it. After a full stop, rule SB8 looks ahead to the
// next letter, from each space and each closing mark anew: n of them cost n² steps, and 100 kB many seconds.
// One space stands for several in those rules. Other marks are cut short, which can change the count only
// where more than 16 of them stand between a full stop and a comma, colon or dash.
func condense(text string) string {
	var b strings.Builder
	kept := 0 // the text before it is in b, or was left out
	silence, space := 0, false
	for i, r := range text {
		if isWordRune(r) || isBreak(r) || unicode.Is(unicode.STerm, r) {
			silence, space = 0, false
			continue
		}
		spaceBefore := space
		space = unicode.IsSpace(r)
		if space && spaceBefore || silence == maxSilence {
			b.WriteString(text[kept:i])
			kept = i + utf8.RuneLen(r)
			continue
		}
		silence++
	}
	if kept == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}
