package server

import (
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// checkSend refuses a request that breaks a rule of the specification or a limit, with the field's path.
func (s *Server) checkSend(req *a2a.SendMessageRequest, card *a2a.AgentCard) error {
	m := req.Message
	if m == nil {
		return a2a.InvalidField("message", "required")
	}
	if m.MessageID == "" {
		return a2a.InvalidField("message.messageId", "required")
	}
	if m.Role != a2a.RoleUser {
		return a2a.InvalidField("message.role", "a message to an agent has ROLE_USER")
	}
	if len(m.Parts) == 0 {
		return a2a.InvalidField("message.parts", "at least one part is required")
	}
	if len(m.Parts) > s.cfg.Limits.Parts {
		return a2a.InvalidField("message.parts", "at most %d parts are taken, got %d", s.cfg.Limits.Parts, len(m.Parts))
	}
	if len(m.ReferenceTaskIDs) > s.cfg.Limits.Parts {
		return a2a.InvalidField("message.referenceTaskIds", "at most %d are taken", s.cfg.Limits.Parts)
	}
	for _, f := range []struct{ path, id string }{
		{"message.messageId", m.MessageID}, {"message.contextId", m.ContextID}, {"message.taskId", m.TaskID},
	} {
		if err := s.checkID(f.path, f.id); err != nil {
			return err
		}
	}
	for i, id := range m.ReferenceTaskIDs {
		if err := s.checkID(fmt.Sprintf("message.referenceTaskIds[%d]", i), id); err != nil {
			return err
		}
	}
	if len(m.Extensions) > s.cfg.Limits.Parts {
		return a2a.InvalidField("message.extensions", "at most %d are taken, got %d", s.cfg.Limits.Parts, len(m.Extensions))
	}
	if c := req.Configuration; c != nil {
		if err := checkHistoryLength("configuration.historyLength", c.HistoryLength); err != nil {
			return err
		}
	}
	for i, p := range m.Parts {
		if p == nil || p.Content == nil {
			return a2a.InvalidField(fmt.Sprintf("message.parts[%d]", i), "one of text, raw, url and data is required")
		}
		for _, f := range []struct{ name, value string }{{"mediaType", p.MediaType}, {"filename", p.Filename}} {
			if strings.ContainsFunc(f.value, unicode.IsControl) {
				return a2a.InvalidField(fmt.Sprintf("message.parts[%d].%s", i, f.name), "control characters are not taken")
			}
		}
	}
	if err := checkNumbers(req); err != nil {
		return err
	}
	return checkModes(m, card)
}

// checkNumbers refuses numbers that no double holds: recorded, they would make the task unreadable over gRPC.
func checkNumbers(req *a2a.SendMessageRequest) error {
	for i, p := range req.Message.Parts {
		data, _ := p.Content.(a2a.Data)
		switch {
		case !jsonx.InDoubles(data):
			return beyondDouble(fmt.Sprintf("message.parts[%d].data", i))
		case !inDoubles(p.Metadata):
			return beyondDouble(fmt.Sprintf("message.parts[%d].metadata", i))
		}
	}
	switch {
	case !inDoubles(req.Message.Metadata):
		return beyondDouble("message.metadata")
	case !inDoubles(req.Metadata):
		return beyondDouble("metadata")
	}
	return nil
}

func inDoubles(of a2a.Struct) bool {
	for _, raw := range of {
		if !jsonx.InDoubles(raw) {
			return false
		}
	}
	return true
}

func beyondDouble(path string) error {
	return a2a.InvalidField(path, "has a number beyond the range of a double")
}

func (s *Server) checkID(path, id string) error {
	if len(id) > s.cfg.Limits.ID {
		return a2a.InvalidField(path, "at most %d bytes are taken, got %d", s.cfg.Limits.ID, len(id))
	}
	if strings.ContainsFunc(id, unicode.IsControl) {
		return a2a.InvalidField(path, "control characters are not taken")
	}
	return nil
}

func checkHistoryLength(path string, n *int32) error {
	if n != nil && *n < 0 {
		return a2a.InvalidField(path, "must not be negative, got %d", *n)
	}
	return nil
}

// history returns the number of messages to show: negative for all.
func history(n *int32) int {
	if n == nil {
		return -1
	}
	return int(*n)
}

// checkModes refuses parts that neither the card's input modes nor those of a skill take.
func checkModes(m *a2a.Message, card *a2a.AgentCard) error {
	for i, p := range m.Parts {
		t := partType(p)
		if takes(card.DefaultInputModes, t) {
			continue
		}
		if slices.ContainsFunc(card.Skills, func(k *a2a.AgentSkill) bool { return takes(k.InputModes, t) }) {
			continue
		}
		e := a2a.Errorf(a2a.ErrContentTypeNotSupported, "message.parts[%d]: this agent does not take %s; it takes %s", i, clip(t), strings.Join(card.DefaultInputModes, ", "))
		e.Metadata = map[string]string{"field": fmt.Sprintf("message.parts[%d]", i), "mediaType": clip(t)}
		return e
	}
	return nil
}

// partType returns the media type of a part without its parameters. What does not say its type has that of
// its content.
func partType(p *a2a.Part) string {
	if p.MediaType != "" {
		t, _, err := mime.ParseMediaType(p.MediaType)
		if err != nil {
			return p.MediaType
		}
		return t
	}
	switch p.Content.(type) {
	case a2a.Text:
		return "text/plain"
	case a2a.Data:
		return "application/json"
	case a2a.Raw, a2a.URL:
	}
	return "application/octet-stream"
}

// takes reports whether one of the modes covers the media type. A mode is a media type, a range such as
// image/* or */*, or, in older cards, the word text.
func takes(modes []string, mediaType string) bool {
	for _, mode := range modes {
		mode, _, _ = strings.Cut(mode, ";") // a mode's parameters exclude nothing
		mode = strings.TrimSpace(mode)
		major, ok := strings.CutSuffix(mode, "/*")
		switch {
		case mode == "*/*", mode == "*", strings.EqualFold(mode, mediaType):
			return true
		case !ok && !strings.Contains(mode, "/"):
			major, ok = mode, true
		}
		if ok && len(mediaType) > len(major) && strings.EqualFold(mediaType[:len(major)], major) && mediaType[len(major)] == '/' {
			return true
		}
	}
	return false
}
