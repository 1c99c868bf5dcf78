package golden

import "strings"

// parse cuts a txtar archive into its comment and its sections.
func parse(text string) (comment string, sections []*section) {
	into := &comment
	for line := range strings.Lines(text) {
		if name, ok := marker(line); ok {
			s := &section{words: strings.Fields(name)}
			sections, into = append(sections, s), &s.data
			continue
		}
		*into += line
	}
	return comment, sections
}

// marker returns the name in a line such as: -- name --.
func marker(line string) (name string, ok bool) {
	line = strings.TrimRight(line, " \r\n")
	line, ok = strings.CutPrefix(line, "-- ")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(line, " --")
	return strings.TrimSpace(name), ok && strings.TrimSpace(name) != ""
}

// format is the reverse of parse.
func format(comment string, sections []*section) string {
	var b strings.Builder
	b.WriteString(comment)
	for _, s := range sections {
		b.WriteString("-- " + strings.Join(s.words, " ") + " --\n" + s.data)
		if s.data != "" && !strings.HasSuffix(s.data, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
