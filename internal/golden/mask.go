package golden

import (
	"fmt"
	"regexp"
	"strings"
)

// names are what the ids of a conversation that the host made are called.
type names struct {
	of    map[string]string // id → name
	ids   map[string]string // name → id
	count map[string]int    // names of a kind
}

const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

var (
	// made matches a member whose value a host makes. Ids that clients make do not look like these.
	made = regexp.MustCompile(`"(\w+)":"(` + uuid + `)"|"(nextPageToken)":"([^"]+)"`)
	// times matches the times of the specification, with milliseconds (5.6.1), and what protojson leaves out
	// of a full second.
	times = regexp.MustCompile(`"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"`)
	// errorIDs matches the two places in which a caller is told an id to ask the log for.
	errorIDs = regexp.MustCompile(`("errorId":"|error id )[0-9A-Za-z]{8,}`)
)

var kindOf = map[string]string{
	"id": "TASK", "taskId": "TASK", "contextId": "CONTEXT", "messageId": "ID", "artifactId": "ID", "nextPageToken": "TOKEN",
}

// mask replaces what differs from run to run. What it sees for the first time it gives a name.
func (n *names) mask(s string) string {
	for _, m := range made.FindAllStringSubmatch(s, -1) {
		key, id := m[1]+m[3], m[2]+m[4]
		if kind := kindOf[key]; kind != "" && n.of[id] == "" {
			n.add(kind, id)
		}
	}
	for id, name := range n.of {
		s = strings.ReplaceAll(s, id, name)
	}
	s = times.ReplaceAllString(s, `"timestamp":"TIME"`)
	return errorIDs.ReplaceAllString(s, "${1}ERROR-ID")
}

func (n *names) add(kind, id string) {
	if n.of == nil {
		n.of, n.ids, n.count = map[string]string{}, map[string]string{}, map[string]int{}
	}
	n.count[kind]++
	name := fmt.Sprintf("%s-%d", kind, n.count[kind])
	n.of[id], n.ids[name] = name, id
}

// fill puts the ids in the place of {TASK-1} and the like.
func (n *names) fill(s string) string {
	for name, id := range n.ids {
		s = strings.ReplaceAll(s, "{"+name+"}", id)
	}
	return s
}

// Mask returns an answer with the ids and times in it masked, as one who sees it alone.
func Mask(answer string) string { return new(names).mask(answer) }
