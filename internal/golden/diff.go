package golden

import "strings"

// diff returns the lines of two texts: those of want alone with a minus, those of got alone with a plus. It is
// empty if the texts are equal.
func diff(want, got string) string {
	if want == got {
		return ""
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	// same[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	same := make([][]int, len(a)+1)
	same[len(a)] = make([]int, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		same[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0; j-- {
			if same[i][j] = max(same[i+1][j], same[i][j+1]); a[i] == b[j] {
				same[i][j] = same[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out.WriteString("  " + a[i] + "\n")
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && same[i+1][j] >= same[i][j+1]:
			out.WriteString("- " + a[i] + "\n")
			i++
		default:
			out.WriteString("+ " + b[j] + "\n")
			j++
		}
	}
	return out.String()
}
