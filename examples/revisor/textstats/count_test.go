package textstats

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/google/go-cmp/cmp"
)

func TestCount(t *testing.T) {
	tests := []struct {
		name string
		text string
		want Stats
	}{
		{"empty", "", Stats{}},
		{"spaces", "  \t ", Stats{Characters: 4, Bytes: 4, Lines: 1}},
		{"a line break", "\n", Stats{Characters: 1, Bytes: 1, Lines: 1}},
		{"punctuation", "?!... --", Stats{Characters: 8, Bytes: 8, Lines: 1, Paragraphs: 1}},
		{"underscores", "___ _", Stats{Characters: 5, Bytes: 5, Lines: 1, Paragraphs: 1}},
		{"one word", "word", Stats{
			Characters: 4, Bytes: 4, Words: 1, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 1, LongestWord: "word", ReadingSeconds: 1,
		}},
		{"a sentence", "The cat saw the other cat.", Stats{
			Characters: 26, Bytes: 26, Words: 6, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 4, LongestWord: "other", ReadingSeconds: 2,
		}},
		{"an abbreviation ends a sentence", "Dr. Smith went. He came.", Stats{
			Characters: 24, Bytes: 24, Words: 5, Sentences: 3, Lines: 1, Paragraphs: 1,
			UniqueWords: 5, LongestWord: "Smith", ReadingSeconds: 2,
		}},
		{"but not before a small letter", "It is 5 p.m. now, e.g. here. etc. and so on", Stats{
			Characters: 43, Bytes: 43, Words: 11, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 11, LongestWord: "here", ReadingSeconds: 4,
		}},
		{"an apostrophe", "don't don’t", Stats{
			Characters: 11, Bytes: 13, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "don't", ReadingSeconds: 1,
		}},
		{"numbers", "3.14 1,000 ½ ⅷ 50%", Stats{
			Characters: 18, Bytes: 21, Words: 5, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 5, LongestWord: "1,000", ReadingSeconds: 2,
		}},
		{"a host name", "www.example.org", Stats{
			Characters: 15, Bytes: 15, Words: 1, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 1, LongestWord: "www.example.org", ReadingSeconds: 1,
		}},
		{"a hyphen", "well-known", Stats{
			Characters: 10, Bytes: 10, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "known", ReadingSeconds: 1,
		}},
		{"no-break space", "a\u00a0b", Stats{
			Characters: 3, Bytes: 4, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "a", ReadingSeconds: 1,
		}},
		{"narrow no-break space joins, as in 10 000", "10\u202f000", Stats{
			Characters: 6, Bytes: 8, Words: 1, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 1, LongestWord: "10\u202f000", ReadingSeconds: 1,
		}},
		{"only no-break spaces on a line", "a\n\u00a0\u2003\nb", Stats{
			Characters: 6, Bytes: 9, Words: 2, Sentences: 2, Lines: 3, Paragraphs: 2,
			UniqueWords: 2, LongestWord: "a", ReadingSeconds: 1,
		}},
		{"accents, composed and combining", "caf\u00e9 cafe\u0301 CAFE\u0301", Stats{
			Characters: 14, Bytes: 19, Words: 3, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 1, LongestWord: "caf\u00e9", ReadingSeconds: 1,
		}},
		{"the first longest word stays", "alpha Bravo", Stats{
			Characters: 11, Bytes: 11, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "alpha", ReadingSeconds: 1,
		}},
		{"more bytes are not a longer word", "ééé abcd", Stats{
			Characters: 8, Bytes: 11, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "abcd", ReadingSeconds: 1,
		}},
		{"folding beyond lower case", "Straße STRASSE ΣΊΣΥΦΟΣ σίσυφος \u212aelvin kelvin", Stats{
			Characters: 44, Bytes: 61, Words: 6, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 3, LongestWord: "STRASSE", ReadingSeconds: 2,
		}},
		{"emoji families", "👨‍👩‍👧‍👦👍🏽 ❤️", Stats{
			Characters: 4, Bytes: 40, Lines: 1, Paragraphs: 1,
		}},
		{"flags", "🇩🇪🇫🇷 🏴󠁧󠁢󠁳󠁣󠁴󠁿", Stats{
			Characters: 4, Bytes: 45, Lines: 1, Paragraphs: 1,
		}},
		{"Thai", "สวัสดีครับ", Stats{ // each letter with its marks
			Characters: 7, Bytes: 30, Words: 7, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 6, LongestWord: "ส", ReadingSeconds: 3,
		}},
		{"Chinese", "我喜欢猫。你呢？", Stats{
			Characters: 8, Bytes: 24, Words: 6, Sentences: 2, Lines: 1, Paragraphs: 1,
			UniqueWords: 6, LongestWord: "我", ReadingSeconds: 2,
		}},
		{"Japanese", "カタカナとひらがな。", Stats{ // Katakana is a word, each Hiragana is
			Characters: 10, Bytes: 30, Words: 6, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 6, LongestWord: "カタカナ", ReadingSeconds: 2,
		}},
		{"Korean", "안녕하세요 \u1112\u1161\u11ab\u1100\u1173\u11af", Stats{
			Characters: 8, Bytes: 34, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "안녕하세요", ReadingSeconds: 1,
		}},
		{"Arabic", "مرحبا بالعالم؟ نعم.", Stats{
			Characters: 19, Bytes: 35, Words: 3, Sentences: 2, Lines: 1, Paragraphs: 1,
			UniqueWords: 3, LongestWord: "بالعالم", ReadingSeconds: 1,
		}},
		{"Hebrew with niqqud", "שָׁלוֹם עוֹלָם צה״ל", Stats{
			Characters: 14, Bytes: 36, Words: 3, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 3, LongestWord: "שָׁלוֹם", ReadingSeconds: 1,
		}},
		{"Devanagari", "नमस्ते दुनिया।", Stats{
			Characters: 8, Bytes: 40, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "नमस्ते", ReadingSeconds: 1,
		}},
		{"CR LF", "a\r\nb\r\n\r\nc\r\n", Stats{
			Characters: 7, Bytes: 11, Words: 3, Sentences: 3, Lines: 4, Paragraphs: 2,
			UniqueWords: 3, LongestWord: "a", ReadingSeconds: 1,
		}},
		{"every line break", "a\nb\rc\u0085d\u2028e\r\nf\u2029g", Stats{
			Characters: 13, Bytes: 19, Words: 7, Sentences: 7, Lines: 7, Paragraphs: 2,
			UniqueWords: 7, LongestWord: "a", ReadingSeconds: 3,
		}},
		{"LF CR are two", "a\n\rb", Stats{
			Characters: 4, Bytes: 4, Words: 2, Sentences: 2, Lines: 3, Paragraphs: 2,
			UniqueWords: 2, LongestWord: "a", ReadingSeconds: 1,
		}},
		{"blank lines around", "\n\n  a  \n\n\n\nb\n\n", Stats{
			Characters: 14, Bytes: 14, Words: 2, Sentences: 2, Lines: 8, Paragraphs: 2,
			UniqueWords: 2, LongestWord: "a", ReadingSeconds: 1,
		}},
		{"not UTF-8", "a\xff\xfeb \xe4\xb8", Stats{ // a�b �
			Characters: 5, Bytes: 7, Words: 2, Sentences: 1, Lines: 1, Paragraphs: 1,
			UniqueWords: 2, LongestWord: "a", ReadingSeconds: 1,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Count(tt.text)); diff != "" {
				t.Errorf("Count(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestReadingSeconds(t *testing.T) {
	for words, want := range map[int]int{0: 0, 1: 1, 3: 1, 4: 2, 10: 3, 200: 60, 201: 61} {
		if got := Count(strings.Repeat("w ", words)).ReadingSeconds; got != want {
			t.Errorf("%d words: %d s, want %d", words, got, want)
		}
	}
}

func TestCountLong(t *testing.T) {
	const n = 10_000_000 / 20
	got := Count(strings.Repeat("Zwölf Boxkämpfer.\n", n))
	want := Stats{
		Characters: 18 * n, Bytes: 20 * n, Words: 2 * n, Sentences: n, Lines: n, Paragraphs: 1,
		UniqueWords: 2, LongestWord: "Boxkämpfer", ReadingSeconds: 2 * n * 3 / 10,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Texts made to keep the sentence rules looking ahead: each takes minutes without condense.
func TestCountHostile(t *testing.T) {
	const n = 1 << 18
	for name, text := range map[string]string{
		"spaces":           "." + strings.Repeat(" ", n),
		"mixed spaces":     "." + strings.Repeat(" \t\u00a0", n/3),
		"closers":          "." + strings.Repeat("(", n),
		"ornaments":        "." + strings.Repeat("❛", n/3),
		"marks in between": "." + strings.Repeat(" \u0301", n/3),
		"before a number":  "." + strings.Repeat(")", 16) + strings.Repeat("1", n),
		"pairs":            strings.Repeat(".)))", n/4),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			Count(text)
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// What condense leaves out must not be missed.
func TestCondenseKeepsSentences(t *testing.T) {
	alphabet := []string{
		".", "!", "。", " ", "\t", "\u00a0", "(", ")", "”", ",", "–", "a", "A", "á", "ж", "猫", "1", "\u0301", "\u00ad",
		"\n", "\r", "☺",
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range 1 + rnd.IntN(maxSilence) {
			b.WriteString(alphabet[rnd.IntN(len(alphabet))])
		}
		text := b.String()
		want := 0
		for it := sentences.FromString(text); it.Next(); {
			if speaks(it.Value()) {
				want++
			}
		}
		if got := Count(text).Sentences; got != want {
			t.Fatalf("%q, condensed %q: %d sentences, want %d", text, condense(text), got, want)
		}
	}
}

func TestCounterPercent(t *testing.T) {
	c := NewCounter(strings.Repeat("a ", 500))
	var got []int
	for c.Step(250) {
		got = append(got, c.Percent())
	}
	got = append(got, c.Percent())
	if want := []int{25, 50, 75, 100}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if c := NewCounter(""); c.Step(1) || c.Percent() != 100 {
		t.Error("an empty text is not at its end")
	}
}

func FuzzCount(f *testing.F) {
	f.Add("One two. Three?", "Vier fünf…\r\nSechs", 3)
	f.Add("a\r", "\u0301b", 1)
	f.Add("סַ.א", "\xff\xe4", 2)
	f.Add("1.2 (3", ") x. ", 5)
	f.Fuzz(func(t *testing.T, a, b string, step int) {
		sa := Count(a)
		checkInvariants(t, a, sa)

		c := NewCounter(a)
		for c.Step(step) {
		}
		if diff := cmp.Diff(sa, c.Stats()); diff != "" {
			t.Errorf("%q by %d (-whole +steps):\n%s", a, step, diff)
		}

		if a == "" || !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		if r, _ := utf8.DecodeLastRuneInString(a); isBreak(r) {
			return
		}
		sb, sum := Count(b), Count(a+"\n\n"+b)
		want := Stats{
			Characters: sa.Characters + 2 + sb.Characters, Bytes: sa.Bytes + 2 + sb.Bytes,
			Words: sa.Words + sb.Words, Sentences: sa.Sentences + sb.Sentences,
			Lines: sa.Lines + 1 + sb.Lines, Paragraphs: sa.Paragraphs + sb.Paragraphs,
			UniqueWords: sum.UniqueWords, LongestWord: sum.LongestWord, ReadingSeconds: sum.ReadingSeconds,
		}
		if diff := cmp.Diff(want, sum); diff != "" {
			t.Errorf("%q, a blank line, %q (-want +got):\n%s", a, b, diff)
		}
		if sum.UniqueWords > sa.UniqueWords+sb.UniqueWords || sum.UniqueWords < max(sa.UniqueWords, sb.UniqueWords) {
			t.Errorf("%q, %q: %d unique words from %d and %d", a, b, sum.UniqueWords, sa.UniqueWords, sb.UniqueWords)
		}
	})
}

func checkInvariants(t *testing.T, text string, s Stats) {
	t.Helper()
	check := func(ok bool, rule string) {
		if !ok {
			t.Errorf("Count(%q) = %+v: %s", text, s, rule)
		}
	}
	check(s.Bytes == len(text), "bytes are the length")
	check(s.Characters <= s.Bytes, "no more characters than bytes")
	check((s.Characters == 0) == (text == ""), "a text has characters")
	check(s.Words <= s.Bytes, "no more words than bytes")
	check(s.UniqueWords <= s.Words, "no more unique words than words")
	check((s.UniqueWords == 0) == (s.Words == 0), "words are unique words")
	check((s.Sentences == 0) == (s.Words == 0), "words make a sentence")
	check((s.LongestWord == "") == (s.Words == 0), "one word is the longest")
	check(strings.Contains(strings.ToValidUTF8(text, "�"), s.LongestWord), "the longest word is in the text")
	check(s.Paragraphs <= s.Lines, "no more paragraphs than lines")
	check(s.Lines <= s.Characters, "no more lines than characters")
	check((s.Lines == 0) == (text == ""), "a text has lines")
	check(s.ReadingSeconds <= s.Words && s.ReadingSeconds*10 >= s.Words*3, "three tenths of a second a word, rounded up")
}

func BenchmarkCount(b *testing.B) {
	for _, bb := range []struct{ name, text string }{
		{"english", "The quick brown fox jumps over the lazy dog, and doesn't stop. Who would? Nobody knows!\n"},
		{"mixed", "Zwölf Boxkämpfer jagen Eva. Съешь ещё этих булок. 我喜欢猫。 नमस्ते दुनिया। 👨‍👩‍👧‍👦\n"},
	} {
		text := strings.Repeat(bb.text, 1_000_000/len(bb.text))
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				Count(text)
			}
		})
	}
}
