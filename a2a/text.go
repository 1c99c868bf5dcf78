package a2a

import "strconv"

func strconvQuote(s string) string { return strconv.Quote(s) }

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// clip returns at most n bytes of s, for error messages that quote what a caller sent.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
