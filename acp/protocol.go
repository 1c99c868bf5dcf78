package acp

import "encoding/json"

// protocolVersion is the version of ACP that this package speaks.
const protocolVersion = 1

// Names of ACP's methods.
const (
	methodInitialize  = "initialize"
	methodNew         = "session/new"
	methodLoad        = "session/load"
	methodResume      = "session/resume"
	methodPrompt      = "session/prompt"
	methodCancel      = "session/cancel"
	methodUpdate      = "session/update"
	methodSetMode     = "session/set_mode"
	methodPermission  = "session/request_permission"
	methodElicitation = "elicitation/create"
)

// implementation names a program.
type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type promptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

type sessionCapabilities struct {
	Resume *struct{} `json:"resume,omitempty"`
}

type agentCapabilities struct {
	LoadSession bool                `json:"loadSession"`
	Prompt      promptCapabilities  `json:"promptCapabilities"`
	Session     sessionCapabilities `json:"sessionCapabilities"`
}

type authMethod struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

type initialized struct {
	ProtocolVersion int               `json:"protocolVersion"`
	Capabilities    agentCapabilities `json:"agentCapabilities"`
	AuthMethods     []authMethod      `json:"authMethods"`
	Agent           *implementation   `json:"agentInfo,omitempty"`
}

type sessionParams struct {
	SessionID  string `json:"sessionId,omitempty"`
	Cwd        string `json:"cwd"`
	MCPServers []any  `json:"mcpServers"`
}

type sessionResult struct {
	SessionID string `json:"sessionId,omitempty"`
	Modes     *struct {
		CurrentModeID string `json:"currentModeId"`
	} `json:"modes,omitempty"`
}

type promptParams struct {
	SessionID string  `json:"sessionId"`
	Prompt    []block `json:"prompt"`
}

type promptResult struct {
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage,omitempty"`
}

// Stop reasons of a turn.
const (
	stopEndTurn   = "end_turn"
	stopRefusal   = "refusal"
	stopCancelled = "cancelled"
)

// block is a piece of content.
type block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"` // base64
	MimeType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

// MarshalJSON implements json.Marshaler: the text of a text block may be empty, but not absent.
func (b block) MarshalJSON() ([]byte, error) {
	if b.Type == "text" {
		return json.Marshal(map[string]string{"type": b.Type, "text": b.Text})
	}
	type plain block
	return json.Marshal(plain(b))
}

// resource is embedded content: Text, or Blob in base64.
type resource struct {
	URI      string  `json:"uri"`
	MimeType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     string  `json:"blob,omitempty"`
}

type updateParams struct {
	SessionID string          `json:"sessionId"`
	Update    json.RawMessage `json:"update"`
}

// Kinds of permission options.
const (
	allowOnce  = "allow_once"
	rejectOnce = "reject_once"
)

type option struct {
	OptionID string `json:"optionId"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
}

type permissionParams struct {
	SessionID string          `json:"sessionId"`
	ToolCall  json.RawMessage `json:"toolCall"`
	Options   []option        `json:"options"`
}

type permissionResult struct {
	Outcome outcome `json:"outcome"`
}

type outcome struct {
	Outcome  string `json:"outcome"` // selected or cancelled
	OptionID string `json:"optionId,omitempty"`
}

type elicitationParams struct {
	SessionID string          `json:"sessionId"`
	Mode      string          `json:"mode"` // form or url
	Message   string          `json:"message"`
	Schema    json.RawMessage `json:"requestedSchema"`
	URL       string          `json:"url"`
}

type elicitationResult struct {
	Action  string          `json:"action"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
}
