package a2a

// MarshalJSON has a value receiver so that encoding/json finds it for values as well as for pointers.

// MarshalJSON returns what AppendJSON appends.
func (m Task) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *Task) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m TaskStatus) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *TaskStatus) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m Message) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *Message) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m Part) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *Part) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m Artifact) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *Artifact) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m TaskStatusUpdateEvent) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *TaskStatusUpdateEvent) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m TaskArtifactUpdateEvent) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *TaskArtifactUpdateEvent) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m SendMessageRequest) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *SendMessageRequest) UnmarshalJSON(b []byte) error { return unmarshalRequest(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m SendMessageResponse) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *SendMessageResponse) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m SendMessageConfiguration) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *SendMessageConfiguration) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m GetTaskRequest) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *GetTaskRequest) UnmarshalJSON(b []byte) error { return unmarshalRequest(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m ListTasksRequest) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *ListTasksRequest) UnmarshalJSON(b []byte) error { return unmarshalRequest(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m ListTasksResponse) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *ListTasksResponse) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m CancelTaskRequest) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *CancelTaskRequest) UnmarshalJSON(b []byte) error { return unmarshalRequest(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m SubscribeToTaskRequest) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *SubscribeToTaskRequest) UnmarshalJSON(b []byte) error { return unmarshalRequest(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m TaskPushNotificationConfig) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *TaskPushNotificationConfig) UnmarshalJSON(b []byte) error { return unmarshalRequest(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AuthenticationInfo) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AuthenticationInfo) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m GetTaskPushNotificationConfigRequest) MarshalJSON() ([]byte, error) {
	return m.AppendJSON(nil), nil
}

// UnmarshalJSON reads the JSON of m into it.
func (m *GetTaskPushNotificationConfigRequest) UnmarshalJSON(b []byte) error {
	return unmarshalRequest(b, m)
}

// MarshalJSON returns what AppendJSON appends.
func (m DeleteTaskPushNotificationConfigRequest) MarshalJSON() ([]byte, error) {
	return m.AppendJSON(nil), nil
}

// UnmarshalJSON reads the JSON of m into it.
func (m *DeleteTaskPushNotificationConfigRequest) UnmarshalJSON(b []byte) error {
	return unmarshalRequest(b, m)
}

// MarshalJSON returns what AppendJSON appends.
func (m ListTaskPushNotificationConfigsRequest) MarshalJSON() ([]byte, error) {
	return m.AppendJSON(nil), nil
}

// UnmarshalJSON reads the JSON of m into it.
func (m *ListTaskPushNotificationConfigsRequest) UnmarshalJSON(b []byte) error {
	return unmarshalRequest(b, m)
}

// MarshalJSON returns what AppendJSON appends.
func (m ListTaskPushNotificationConfigsResponse) MarshalJSON() ([]byte, error) {
	return m.AppendJSON(nil), nil
}

// UnmarshalJSON reads the JSON of m into it.
func (m *ListTaskPushNotificationConfigsResponse) UnmarshalJSON(b []byte) error {
	return unmarshal(b, m)
}

// MarshalJSON returns what AppendJSON appends.
func (m GetExtendedAgentCardRequest) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *GetExtendedAgentCardRequest) UnmarshalJSON(b []byte) error { return unmarshalRequest(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m Empty) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *Empty) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AgentCard) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AgentCard) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AgentInterface) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AgentInterface) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AgentProvider) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AgentProvider) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AgentCapabilities) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AgentCapabilities) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AgentExtension) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AgentExtension) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AgentSkill) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AgentSkill) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AgentCardSignature) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AgentCardSignature) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m SecurityRequirement) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *SecurityRequirement) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m APIKeySecurityScheme) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *APIKeySecurityScheme) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m HTTPAuthSecurityScheme) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *HTTPAuthSecurityScheme) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m OAuth2SecurityScheme) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *OAuth2SecurityScheme) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m OpenIDConnectSecurityScheme) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *OpenIDConnectSecurityScheme) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m MutualTLSSecurityScheme) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *MutualTLSSecurityScheme) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m AuthorizationCodeOAuthFlow) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *AuthorizationCodeOAuthFlow) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m ClientCredentialsOAuthFlow) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *ClientCredentialsOAuthFlow) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m ImplicitOAuthFlow) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *ImplicitOAuthFlow) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m PasswordOAuthFlow) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *PasswordOAuthFlow) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

// MarshalJSON returns what AppendJSON appends.
func (m DeviceCodeOAuthFlow) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads the JSON of m into it.
func (m *DeviceCodeOAuthFlow) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }
