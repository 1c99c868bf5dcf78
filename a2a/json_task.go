package a2a

import (
	"bytes"

	"github.com/parley-a2a/parley/internal/jsonx"
)

// AppendJSON appends the JSON of t to b.
func (t *Task) AppendJSON(b []byte) []byte { return t.appendJSON(b, false) }

// appendJSON writes an empty list of artifacts only where a caller asked for artifacts (specification 3.1.4).
func (t *Task) appendJSON(b []byte, emptyArtifacts bool) []byte {
	b = append(b, '{')
	b = appendString(b, "id", t.ID)
	b = appendText(b, "contextId", t.ContextID)
	b = appendMessage(b, "status", &t.Status)
	if len(t.Artifacts) > 0 || emptyArtifacts {
		b = appendList(b, "artifacts", t.Artifacts)
	}
	b = appendMessages(b, "history", t.History)
	b = appendStruct(b, "metadata", t.Metadata)
	return append(b, '}')
}

func (t *Task) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "id":
			t.ID = r.String()
		case "contextId":
			t.ContextID = r.String()
		case "status":
			t.Status = *decodeNew[TaskStatus](r)
		case "artifacts":
			t.Artifacts = decodeList[Artifact](r)
		case "history":
			t.History = decodeList[Message](r)
		case "metadata":
			t.Metadata = decodeStruct(r)
		}
	}
}

// AppendJSON appends the JSON of s to b.
func (s *TaskStatus) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendEnum(b, "state", s.State.String())
	b = appendMessage(b, "message", s.Message)
	b = appendTime(b, "timestamp", s.Timestamp)
	return append(b, '}')
}

func (s *TaskStatus) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "state":
			s.State = TaskState(decodeEnum(r, taskStateNames[:]))
		case "message":
			s.Message = decodeNew[Message](r)
		case "timestamp":
			s.Timestamp = r.Time()
		}
	}
}

// AppendJSON appends the JSON of m to b.
func (m *Message) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "messageId", m.MessageID)
	b = appendText(b, "contextId", m.ContextID)
	b = appendText(b, "taskId", m.TaskID)
	b = appendEnum(b, "role", m.Role.String())
	b = appendList(b, "parts", m.Parts)
	b = appendStruct(b, "metadata", m.Metadata)
	b = appendStrings(b, "extensions", m.Extensions)
	b = appendStrings(b, "referenceTaskIds", m.ReferenceTaskIDs)
	return append(b, '}')
}

func (m *Message) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "messageId":
			m.MessageID = r.String()
		case "contextId":
			m.ContextID = r.String()
		case "taskId":
			m.TaskID = r.String()
		case "role":
			m.Role = Role(decodeEnum(r, roleNames[:]))
		case "parts":
			m.Parts = decodeList[Part](r)
		case "metadata":
			m.Metadata = decodeStruct(r)
		case "extensions":
			m.Extensions = decodeStrings(r)
		case "referenceTaskIds":
			m.ReferenceTaskIDs = decodeStrings(r)
		}
	}
}

// AppendJSON appends the JSON of p to b.
func (p *Part) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	switch c := p.Content.(type) {
	case Text:
		b = appendString(b, "text", string(c))
	case Raw:
		b = jsonx.AppendBase64(appendName(b, "raw"), c)
	case URL:
		b = appendString(b, "url", string(c))
	case Data:
		b = appendValue(appendName(b, "data"), c)
	case nil:
	}
	b = appendStruct(b, "metadata", p.Metadata)
	b = appendText(b, "filename", p.Filename)
	b = appendText(b, "mediaType", p.MediaType)
	return append(b, '}')
}

// decode reads a part. Some senders fill every member that they do not mean with null or "": the one member
// that says something is the content. When none does, it is the first of text, raw, url and data that is
// there.
func (p *Part) decode(r *jsonx.Reader) {
	var full, empty Content
	var fullName string
	emptyRank := len(contentNames)
	for name := range r.Fields() {
		if rank := contentRank(name); rank >= 0 {
			c, isEmpty := decodeContent(r, name)
			switch {
			case c == nil:
			case !isEmpty && full == nil:
				full, fullName = c, contentNames[rank]
			case !isEmpty:
				r.Fail("%s and %s are both set, a part has one of them", fullName, name)
			case rank < emptyRank:
				empty, emptyRank = c, rank
			}
			continue
		}
		if r.Null() {
			continue
		}
		switch name {
		case "metadata":
			p.Metadata = decodeStruct(r)
		case "filename":
			p.Filename = r.String()
		case "mediaType":
			p.MediaType = r.String()
		}
	}
	if full == nil {
		full = empty
	}
	if full != nil {
		p.Content = full
	}
}

// contentNames are the members that hold a part's content.
var contentNames = [...]string{"text", "raw", "url", "data"}

func contentRank(name string) int {
	for i, n := range contentNames {
		if n == name {
			return i
		}
	}
	return -1
}

// decodeContent reads a member that holds content. Null is none, except that as data it is the value null.
func decodeContent(r *jsonx.Reader, name string) (c Content, isEmpty bool) {
	if name == "data" {
		raw := r.Raw()
		return Data(bytes.Clone(raw)), string(raw) == "null" || string(raw) == `""`
	}
	if r.Null() {
		return nil, true
	}
	switch name {
	case "raw":
		raw := Raw(r.Bytes())
		return raw, len(raw) == 0
	case "url":
		url := URL(r.String())
		return url, url == ""
	default:
		text := Text(r.String())
		return text, text == ""
	}
}

// AppendJSON appends the JSON of a to b.
func (a *Artifact) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "artifactId", a.ArtifactID)
	b = appendText(b, "name", a.Name)
	b = appendText(b, "description", a.Description)
	b = appendList(b, "parts", a.Parts)
	b = appendStruct(b, "metadata", a.Metadata)
	b = appendStrings(b, "extensions", a.Extensions)
	return append(b, '}')
}

func (a *Artifact) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "artifactId":
			a.ArtifactID = r.String()
		case "name":
			a.Name = r.String()
		case "description":
			a.Description = r.String()
		case "parts":
			a.Parts = decodeList[Part](r)
		case "metadata":
			a.Metadata = decodeStruct(r)
		case "extensions":
			a.Extensions = decodeStrings(r)
		}
	}
}

// AppendJSON appends the JSON of e to b.
func (e *TaskStatusUpdateEvent) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "taskId", e.TaskID)
	b = appendString(b, "contextId", e.ContextID)
	b = appendMessage(b, "status", &e.Status)
	b = appendStruct(b, "metadata", e.Metadata)
	return append(b, '}')
}

func (e *TaskStatusUpdateEvent) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "taskId":
			e.TaskID = r.String()
		case "contextId":
			e.ContextID = r.String()
		case "status":
			e.Status = *decodeNew[TaskStatus](r)
		case "metadata":
			e.Metadata = decodeStruct(r)
		}
	}
}

// AppendJSON appends the JSON of e to b.
func (e *TaskArtifactUpdateEvent) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "taskId", e.TaskID)
	b = appendString(b, "contextId", e.ContextID)
	b = appendMessage(b, "artifact", e.Artifact)
	b = appendFlag(b, "append", e.Append)
	b = appendFlag(b, "lastChunk", e.LastChunk)
	b = appendStruct(b, "metadata", e.Metadata)
	return append(b, '}')
}

func (e *TaskArtifactUpdateEvent) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "taskId":
			e.TaskID = r.String()
		case "contextId":
			e.ContextID = r.String()
		case "artifact":
			e.Artifact = decodeNew[Artifact](r)
		case "append":
			e.Append = r.Bool()
		case "lastChunk":
			e.LastChunk = r.Bool()
		case "metadata":
			e.Metadata = decodeStruct(r)
		}
	}
}

// AppendStreamResponse appends an event as a stream and a webhook carry it: the JSON of a StreamResponse
// (specification 3.2.3). It is one line.
func AppendStreamResponse(b []byte, ev Event) []byte {
	b = append(b, '{')
	switch ev := ev.(type) {
	case *Task:
		b = appendMessage(b, "task", ev)
	case *Message:
		b = appendMessage(b, "message", ev)
	case *TaskStatusUpdateEvent:
		b = appendMessage(b, "statusUpdate", ev)
	case *TaskArtifactUpdateEvent:
		b = appendMessage(b, "artifactUpdate", ev)
	case nil:
	}
	return append(b, '}')
}

// ParseStreamResponse reads the JSON of a StreamResponse. Its errors are those of UnmarshalJSON; one with no
// event in it, or with two, is an error too.
func ParseStreamResponse(b []byte) (Event, error) {
	var s streamResponse
	if err := unmarshal(b, &s); err != nil {
		return nil, err
	}
	return s.event, nil
}

type streamResponse struct{ event Event }

func (s *streamResponse) decode(r *jsonx.Reader) {
	var set string
	for name := range r.Present() {
		var ev Event
		switch name {
		case "task":
			ev = decodeNew[Task](r)
		case "message":
			ev = decodeNew[Message](r)
		case "statusUpdate":
			ev = decodeNew[TaskStatusUpdateEvent](r)
		case "artifactUpdate":
			ev = decodeNew[TaskArtifactUpdateEvent](r)
		default:
			continue
		}
		set = onlyOne(r, set, name)
		s.event = ev
	}
	if s.event == nil {
		r.Fail("must have one of task, message, statusUpdate and artifactUpdate")
	}
}

// onlyOne checks that name is the first member of a oneof that is set, and returns it to be kept.
func onlyOne(r *jsonx.Reader, set, name string) string {
	if set != "" {
		r.Fail("%s and %s are both set, only one may be", set, name)
		return set
	}
	return string([]byte(name)) // name is part of the input
}
