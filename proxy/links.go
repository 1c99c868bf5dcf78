package proxy

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/parley-a2a/parley/agent"
)

// linksKey is the name of the context's value that says what there is at the remote agent.
const linksKey = "proxy"

// maxLinks is how many bytes a context's value may have: about 40 tasks. What was begun before is not found again after a
// restart.
const maxLinks = 4096

// record is what is kept of a context: the remote agent's, and the latest tasks, the oldest first.
type record struct {
	Context string `json:"context,omitempty"`
	Tasks   []link `json:"tasks,omitempty"`
}

// link is a task with its like at the remote agent.
type link struct {
	Task   string `json:"task"`
	Remote string `json:"remote"`
	Turn   int    `json:"turn"` // the last one whose message is known to have arrived
}

// contextKey is a caller's context.
type contextKey struct{ tenant, owner, context string }

// links is the record of a context for as long as tasks of it run here: they share it, as none of them sees what another
// has recorded meanwhile.
type links struct {
	a     *Agent
	key   contextKey
	users int // under Agent.mu

	mu sync.Mutex
	record
}

// enter returns the record of a run's context.
func (a *Agent) enter(r *agent.Request) *links {
	key := contextKey{r.Caller.Tenant, r.Caller.Owner(), r.Task.ContextID}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.links[key]
	if l == nil {
		l = &links{a: a, key: key}
		_ = json.Unmarshal([]byte(r.Values.Get(linksKey)), &l.record) // "" is an empty one
		a.links[key] = l
	}
	l.users++
	return l
}

func (l *links) leave() {
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(l.a.links, l.key)
	}
}

// of returns the link of a task; its Remote is empty if there is none.
func (l *links) of(task string) link {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.index(task); i >= 0 {
		return l.Tasks[i]
	}
	return link{Task: task}
}

func (l *links) index(task string) int {
	return slices.IndexFunc(l.Tasks, func(k link) bool { return k.Task == task })
}

// context returns the remote agent's context, "" if there is none yet.
func (l *links) context() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Context
}

// join records the link of a task, and the remote agent's context if it is the first.
func (l *links) join(r *agent.Request, k link, context string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.index(k.Task); i < 0 {
		l.Tasks = append(l.Tasks, k)
	} else {
		l.Tasks[i] = k
	}
	if l.Context == "" {
		l.Context = context
	}
	return l.save(r)
}

// end forgets a task, when the record is saved the next time: that it has ended is in its own log.
func (l *links) end(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Tasks = slices.DeleteFunc(l.Tasks, func(k link) bool { return k.Task == task })
}

// save records what there is room for.
func (l *links) save(r *agent.Request) error {
	for kept := l.record; ; kept.Tasks = kept.Tasks[1:] {
		b, err := json.Marshal(&kept)
		if err != nil {
			return err
		}
		if len(b) <= maxLinks || len(kept.Tasks) == 0 {
			return r.Values.Set(linksKey, string(b))
		}
	}
}
