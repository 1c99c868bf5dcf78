package a2a

import (
	"encoding/json"
	"strings"
	"time"
)

// TaskState is where a task stands in its life (specification 4.1.3). The numbers are the proto's.
type TaskState int32

const (
	TaskStateUnspecified   TaskState = 0 // unknown; never sent for a task of this host
	TaskStateSubmitted     TaskState = 1 // recorded, not started
	TaskStateWorking       TaskState = 2 // a run is at work
	TaskStateCompleted     TaskState = 3 // terminal: finished
	TaskStateFailed        TaskState = 4 // terminal: ended with an error
	TaskStateCanceled      TaskState = 5 // terminal: canceled before it finished
	TaskStateInputRequired TaskState = 6 // interrupted: the next message continues it
	TaskStateRejected      TaskState = 7 // terminal: the agent declined
	TaskStateAuthRequired  TaskState = 8 // interrupted: an authorization is needed (specification 7.6)
)

var taskStateNames = [...]string{
	"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED",
	"TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED",
	"TASK_STATE_AUTH_REQUIRED",
}

// String returns the name on the wire, such as TASK_STATE_WORKING.
func (s TaskState) String() string { return enumName(taskStateNames[:], int32(s)) }

// ParseTaskState returns the state with the given name on the wire.
func ParseTaskState(name string) (TaskState, bool) {
	i, ok := enumValue(taskStateNames[:], name)
	return TaskState(i), ok
}

// Terminal reports whether a task in this state is at its end: no message and no event changes it again.
func (s TaskState) Terminal() bool {
	return s == TaskStateCompleted || s == TaskStateFailed || s == TaskStateCanceled || s == TaskStateRejected
}

// Interrupted reports whether a task in this state waits for its caller.
func (s TaskState) Interrupted() bool {
	return s == TaskStateInputRequired || s == TaskStateAuthRequired
}

// Role says who sent a message (specification 4.1.5).
type Role int32

const (
	RoleUnspecified Role = 0 // not a valid sender
	RoleUser        Role = 1 // from the client to the server
	RoleAgent       Role = 2 // from the server to the client
)

var roleNames = [...]string{"ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"}

// String returns the name on the wire, such as ROLE_USER.
func (r Role) String() string { return enumName(roleNames[:], int32(r)) }

// ParseRole returns the role with the given name on the wire.
func ParseRole(name string) (Role, bool) {
	i, ok := enumValue(roleNames[:], name)
	return Role(i), ok
}

// Task is a stateful unit of work (specification 4.1.1).
type Task struct {
	ID        string // required; made by the server
	ContextID string
	Status    TaskStatus // required
	Artifacts []*Artifact
	History   []*Message
	Metadata  Struct
}

// TaskStatus is a task's state with the message that explains it (specification 4.1.2).
type TaskStatus struct {
	State     TaskState // required
	Message   *Message
	Timestamp time.Time // when the status was recorded; zero is absent
}

// Message is one turn between client and agent (specification 4.1.4).
type Message struct {
	MessageID        string // required; made by the sender
	ContextID        string
	TaskID           string
	Role             Role    // required
	Parts            []*Part // required, at least one
	Metadata         Struct
	Extensions       []string
	ReferenceTaskIDs []string
}

// Part is a piece of content (specification 4.1.6). On the wire it is flat: the name of the member says
// which [Content] it is.
type Part struct {
	Content   Content
	Metadata  Struct
	Filename  string
	MediaType string
}

// Content is what a Part holds: one of [Text], [Raw], [URL] and [Data].
//
//sumtype:decl
type Content interface{ isContent() }

// Text is plain text content.
type Text string

// Raw is the bytes of a file. JSON carries them as base64.
type Raw []byte

// URL points to a file's content.
type URL string

// Data is structured content: any JSON value, kept as the JSON text it came in. The JSON bindings carry it
// to the byte; over gRPC it is a google.protobuf.Value, so numbers become doubles and the layout is lost.
type Data json.RawMessage

func (Text) isContent() {}
func (Raw) isContent()  {}
func (URL) isContent()  {}
func (Data) isContent() {}

// Artifact is an output of a task (specification 4.1.7).
type Artifact struct {
	ArtifactID  string // required; unique within its task
	Name        string
	Description string
	Parts       []*Part // required, at least one
	Metadata    Struct
	Extensions  []string
}

// Event is what a task's log and a stream consist of: one of [*Task], [*Message],
// [*TaskStatusUpdateEvent] and [*TaskArtifactUpdateEvent]. On the wire it is wrapped in a StreamResponse
// (specification 3.2.3), see [AppendStreamResponse].
//
//sumtype:decl
type Event interface{ isEvent() }

// SendMessageResult is the answer to SendMessage: a [*Task] or a [*Message]. On the wire it is wrapped in a
// [SendMessageResponse].
//
//sumtype:decl
type SendMessageResult interface {
	Event
	isSendMessageResult()
}

// TaskStatusUpdateEvent says that a task's status changed (specification 4.2.1).
type TaskStatusUpdateEvent struct {
	TaskID    string     // required
	ContextID string     // required
	Status    TaskStatus // required
	Metadata  Struct
}

// TaskArtifactUpdateEvent brings an artifact or a chunk of one (specification 4.2.2).
type TaskArtifactUpdateEvent struct {
	TaskID    string    // required
	ContextID string    // required
	Artifact  *Artifact // required
	Append    bool      // the parts follow those already sent for this artifact
	LastChunk bool      // nothing follows for this artifact
	Metadata  Struct
}

func (*Task) isEvent()                    {}
func (*Message) isEvent()                 {}
func (*TaskStatusUpdateEvent) isEvent()   {}
func (*TaskArtifactUpdateEvent) isEvent() {}
func (*Task) isSendMessageResult()        {}
func (*Message) isSendMessageResult()     {}

// Struct is a JSON object with its values as they came, as the specification uses it for metadata and
// extension parameters. A nil Struct is absent. It is written with its names sorted.
type Struct map[string]json.RawMessage

// Get decodes the value of name into v and reports whether there is one that fits.
func (s Struct) Get(name string, v any) bool {
	raw, ok := s[name]
	return ok && json.Unmarshal(raw, v) == nil
}

// With returns a copy of s in which name has the value v. It panics if v cannot be written as JSON.
func (s Struct) With(name string, v any) Struct {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("a2a: Struct.With: " + err.Error())
	}
	out := make(Struct, len(s)+1)
	for k, old := range s {
		out[k] = old
	}
	out[name] = raw
	return out
}

// TextPart returns a part of plain text.
func TextPart(text string) *Part { return &Part{Content: Text(text)} }

// DataPart returns a part that holds v as JSON. It panics if v cannot be written as JSON.
func DataPart(v any) *Part {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("a2a: DataPart: " + err.Error())
	}
	return &Part{Content: Data(raw)}
}

// Text returns the text parts of the message, one after the other, with a line break between two. A nil
// message, such as that of a status without one, has no text.
func (m *Message) Text() string {
	if m == nil {
		return ""
	}
	return joinText(m.Parts, "\n")
}

// Text returns the text parts of the artifact joined: what a reader of a chunked text sees.
func (a *Artifact) Text() string {
	return joinText(a.Parts, "")
}

// Size returns about how many bytes the task's content has, that of its messages and artifacts: enough to bound memory by.
func (t *Task) Size() (n int) {
	for _, m := range t.History {
		n += partsSize(m.Parts)
	}
	for _, a := range t.Artifacts {
		n += partsSize(a.Parts)
	}
	if t.Status.Message != nil {
		n += partsSize(t.Status.Message.Parts)
	}
	return n
}

func partsSize(parts []*Part) (n int) {
	for _, p := range parts {
		n += 64 // what stands around
		switch c := p.Content.(type) {
		case Text:
			n += len(c)
		case Raw:
			n += len(c)
		case URL:
			n += len(c)
		case Data:
			n += len(c)
		}
	}
	return n
}

// joinText copies nothing where there is one text.
func joinText(parts []*Part, between string) string {
	var texts []string
	for _, p := range parts {
		if t, ok := p.Content.(Text); ok {
			texts = append(texts, string(t))
		}
	}
	return strings.Join(texts, between)
}

func enumName(names []string, i int32) string {
	if i < 0 || int(i) >= len(names) {
		return names[0]
	}
	return names[i]
}

func enumValue(names []string, name string) (int32, bool) {
	for i, n := range names {
		if n == name {
			return int32(i), true
		}
	}
	return 0, false
}
