package a2a

import "github.com/parley-a2a/parley/internal/jsonx"

// AppendJSON appends the JSON of c to b.
func (c *AgentCard) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "name", c.Name)
	b = appendString(b, "description", c.Description)
	b = appendList(b, "supportedInterfaces", c.SupportedInterfaces)
	b = appendMessage(b, "provider", c.Provider)
	b = appendString(b, "version", c.Version)
	b = appendOptionalString(b, "documentationUrl", c.DocumentationURL)
	b = appendMessage(b, "capabilities", &c.Capabilities)
	b = appendSecuritySchemes(b, c.SecuritySchemes)
	b = appendMessages(b, "securityRequirements", c.SecurityRequirements)
	b = appendStringList(b, "defaultInputModes", c.DefaultInputModes)
	b = appendStringList(b, "defaultOutputModes", c.DefaultOutputModes)
	b = appendList(b, "skills", c.Skills)
	b = appendMessages(b, "signatures", c.Signatures)
	b = appendOptionalString(b, "iconUrl", c.IconURL)
	return append(b, '}')
}

// decode also takes security, the name that securityRequirements had in earlier versions; the present name wins.
func (c *AgentCard) decode(r *jsonx.Reader) {
	var old []*SecurityRequirement
	for name := range r.Present() {
		switch name {
		case "name":
			c.Name = r.String()
		case "description":
			c.Description = r.String()
		case "supportedInterfaces":
			c.SupportedInterfaces = decodeList[AgentInterface](r)
		case "provider":
			c.Provider = decodeNew[AgentProvider](r)
		case "version":
			c.Version = r.String()
		case "documentationUrl":
			c.DocumentationURL = decodeString(r)
		case "capabilities":
			c.Capabilities = *decodeNew[AgentCapabilities](r)
		case "securitySchemes":
			c.SecuritySchemes = decodeSecuritySchemes(r)
		case "securityRequirements":
			c.SecurityRequirements = decodeList[SecurityRequirement](r)
		case "security":
			old = decodeList[SecurityRequirement](r)
		case "defaultInputModes":
			c.DefaultInputModes = decodeStrings(r)
		case "defaultOutputModes":
			c.DefaultOutputModes = decodeStrings(r)
		case "skills":
			c.Skills = decodeList[AgentSkill](r)
		case "signatures":
			c.Signatures = decodeList[AgentCardSignature](r)
		case "iconUrl":
			c.IconURL = decodeString(r)
		}
	}
	if c.SecurityRequirements == nil {
		c.SecurityRequirements = old
	}
}

// appendOptionalString appends a string unless it is nil.
func appendOptionalString(b []byte, name string, s *string) []byte {
	if s == nil {
		return b
	}
	return appendString(b, name, *s)
}

func decodeString(r *jsonx.Reader) *string {
	s := r.String()
	return &s
}

// AppendJSON appends the JSON of i to b.
func (i *AgentInterface) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "url", i.URL)
	b = appendString(b, "protocolBinding", i.ProtocolBinding)
	b = appendText(b, "tenant", i.Tenant)
	b = appendString(b, "protocolVersion", i.ProtocolVersion)
	return append(b, '}')
}

func (i *AgentInterface) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "url":
			i.URL = r.String()
		case "protocolBinding":
			i.ProtocolBinding = r.String()
		case "tenant":
			i.Tenant = r.String()
		case "protocolVersion":
			i.ProtocolVersion = r.String()
		}
	}
}

// AppendJSON appends the JSON of p to b.
func (p *AgentProvider) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "url", p.URL)
	b = appendString(b, "organization", p.Organization)
	return append(b, '}')
}

func (p *AgentProvider) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "url":
			p.URL = r.String()
		case "organization":
			p.Organization = r.String()
		}
	}
}

// AppendJSON appends the JSON of c to b.
func (c *AgentCapabilities) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendBool(b, "streaming", c.Streaming)
	b = appendBool(b, "pushNotifications", c.PushNotifications)
	b = appendMessages(b, "extensions", c.Extensions)
	b = appendBool(b, "extendedAgentCard", c.ExtendedAgentCard)
	return append(b, '}')
}

func (c *AgentCapabilities) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "streaming":
			c.Streaming = decodeBool(r)
		case "pushNotifications":
			c.PushNotifications = decodeBool(r)
		case "extensions":
			c.Extensions = decodeList[AgentExtension](r)
		case "extendedAgentCard":
			c.ExtendedAgentCard = decodeBool(r)
		}
	}
}

// AppendJSON appends the JSON of e to b.
func (e *AgentExtension) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "uri", e.URI)
	b = appendText(b, "description", e.Description)
	b = appendFlag(b, "required", e.Required)
	b = appendStruct(b, "params", e.Params)
	return append(b, '}')
}

func (e *AgentExtension) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "uri":
			e.URI = r.String()
		case "description":
			e.Description = r.String()
		case "required":
			e.Required = r.Bool()
		case "params":
			e.Params = decodeStruct(r)
		}
	}
}

// AppendJSON appends the JSON of s to b.
func (s *AgentSkill) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "id", s.ID)
	b = appendString(b, "name", s.Name)
	b = appendString(b, "description", s.Description)
	b = appendStringList(b, "tags", s.Tags)
	b = appendStrings(b, "examples", s.Examples)
	b = appendStrings(b, "inputModes", s.InputModes)
	b = appendStrings(b, "outputModes", s.OutputModes)
	b = appendMessages(b, "securityRequirements", s.SecurityRequirements)
	return append(b, '}')
}

// decode also takes security, as AgentCard's does.
func (s *AgentSkill) decode(r *jsonx.Reader) {
	var old []*SecurityRequirement
	for name := range r.Present() {
		switch name {
		case "id":
			s.ID = r.String()
		case "name":
			s.Name = r.String()
		case "description":
			s.Description = r.String()
		case "tags":
			s.Tags = decodeStrings(r)
		case "examples":
			s.Examples = decodeStrings(r)
		case "inputModes":
			s.InputModes = decodeStrings(r)
		case "outputModes":
			s.OutputModes = decodeStrings(r)
		case "securityRequirements":
			s.SecurityRequirements = decodeList[SecurityRequirement](r)
		case "security":
			old = decodeList[SecurityRequirement](r)
		}
	}
	if s.SecurityRequirements == nil {
		s.SecurityRequirements = old
	}
}

// AppendJSON appends the JSON of s to b.
func (s *AgentCardSignature) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "protected", s.Protected)
	b = appendString(b, "signature", s.Signature)
	b = appendStruct(b, "header", s.Header)
	return append(b, '}')
}

func (s *AgentCardSignature) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "protected":
			s.Protected = r.String()
		case "signature":
			s.Signature = r.String()
		case "header":
			s.Header = decodeStruct(r)
		}
	}
}

// AppendJSON appends the JSON of q to b.
func (q *SecurityRequirement) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if len(q.Schemes) > 0 {
		b = append(appendName(b, "schemes"), '{')
		for _, scheme := range sortedNames(nil, q.Schemes) {
			b = append(appendKey(b, scheme), '{')
			b = appendStrings(b, "list", q.Schemes[scheme])
			b = append(b, '}')
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// decode takes both forms of a requirement: {"schemes":{"oauth":{"list":["read"]}}} as the proto has it, and
// {"oauth":["read"]} as OpenAPI and earlier versions have it. Beside schemes, other members are unknown fields.
func (q *SecurityRequirement) decode(r *jsonx.Reader) {
	var schemes map[string][]string
	plain, odd := map[string][]string{}, false
	for name := range r.RawFields() {
		switch {
		case r.Kind() == '[':
			scopes := []string{}
			for range r.Elems() {
				if r.Kind() != '"' {
					odd = true
					continue
				}
				scopes = append(scopes, r.String())
			}
			plain[name] = scopes
		case name == "schemes" && !r.Null():
			schemes = decodeScopes(r)
		}
	}
	switch {
	case schemes != nil:
		q.Schemes = schemes
	case odd:
		r.Fail("must be scopes by scheme: lists of strings")
	default:
		q.Schemes = plain
	}
}

func decodeScopes(r *jsonx.Reader) map[string][]string {
	out := map[string][]string{}
	for scheme := range r.RawFields() {
		var scopes []string
		if r.Kind() == '[' {
			scopes = decodeStrings(r)
		} else {
			for name := range r.Present() {
				if name == "list" {
					scopes = decodeStrings(r)
				}
			}
		}
		out[scheme] = scopes
	}
	return out
}

func appendSecuritySchemes(b []byte, schemes map[string]SecurityScheme) []byte {
	if len(schemes) == 0 {
		return b
	}
	b = append(appendName(b, "securitySchemes"), '{')
	for _, name := range sortedNames(nil, schemes) {
		b = appendSecurityScheme(appendKey(b, name), schemes[name])
	}
	return append(b, '}')
}

// decodeSecuritySchemes leaves out schemes of a kind that is not known here: they are of no use, and the rest of the
// card is.
func decodeSecuritySchemes(r *jsonx.Reader) map[string]SecurityScheme {
	out := map[string]SecurityScheme{}
	for name := range r.RawFields() {
		if s := decodeSecurityScheme(r); s != nil {
			out[name] = s
		}
	}
	return out
}

func appendSecurityScheme(b []byte, s SecurityScheme) []byte {
	b = append(b, '{')
	switch s := s.(type) {
	case *APIKeySecurityScheme:
		b = appendMessage(b, "apiKeySecurityScheme", s)
	case *HTTPAuthSecurityScheme:
		b = appendMessage(b, "httpAuthSecurityScheme", s)
	case *OAuth2SecurityScheme:
		b = appendMessage(b, "oauth2SecurityScheme", s)
	case *OpenIDConnectSecurityScheme:
		b = appendMessage(b, "openIdConnectSecurityScheme", s)
	case *MutualTLSSecurityScheme:
		b = appendMessage(b, "mtlsSecurityScheme", s)
	case nil:
	}
	return append(b, '}')
}

// decodeSecurityScheme returns nil for a kind of scheme that is not known here.
func decodeSecurityScheme(r *jsonx.Reader) (s SecurityScheme) {
	var set string
	for name := range r.Present() {
		switch name {
		case "apiKeySecurityScheme":
			s = decodeNew[APIKeySecurityScheme](r)
		case "httpAuthSecurityScheme":
			s = decodeNew[HTTPAuthSecurityScheme](r)
		case "oauth2SecurityScheme":
			s = decodeNew[OAuth2SecurityScheme](r)
		case "openIdConnectSecurityScheme":
			s = decodeNew[OpenIDConnectSecurityScheme](r)
		case "mtlsSecurityScheme":
			s = decodeNew[MutualTLSSecurityScheme](r)
		default:
			continue
		}
		set = onlyOne(r, set, name)
	}
	return s
}

// AppendJSON appends the JSON of s to b, without the wrapper that names its kind.
func (s *APIKeySecurityScheme) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "description", s.Description)
	b = appendString(b, "location", s.Location)
	b = appendString(b, "name", s.Name)
	return append(b, '}')
}

func (s *APIKeySecurityScheme) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "description":
			s.Description = r.String()
		case "location":
			s.Location = r.String()
		case "name":
			s.Name = r.String()
		}
	}
}

// AppendJSON appends the JSON of s to b, without the wrapper that names its kind.
func (s *HTTPAuthSecurityScheme) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "description", s.Description)
	b = appendString(b, "scheme", s.Scheme)
	b = appendText(b, "bearerFormat", s.BearerFormat)
	return append(b, '}')
}

func (s *HTTPAuthSecurityScheme) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "description":
			s.Description = r.String()
		case "scheme":
			s.Scheme = r.String()
		case "bearerFormat":
			s.BearerFormat = r.String()
		}
	}
}

// AppendJSON appends the JSON of s to b, without the wrapper that names its kind.
func (s *OAuth2SecurityScheme) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "description", s.Description)
	b = appendOAuthFlow(appendName(b, "flows"), s.Flows)
	b = appendText(b, "oauth2MetadataUrl", s.OAuth2MetadataURL)
	return append(b, '}')
}

func (s *OAuth2SecurityScheme) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "description":
			s.Description = r.String()
		case "flows":
			s.Flows = decodeOAuthFlow(r)
		case "oauth2MetadataUrl":
			s.OAuth2MetadataURL = r.String()
		}
	}
}

// AppendJSON appends the JSON of s to b, without the wrapper that names its kind.
func (s *OpenIDConnectSecurityScheme) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "description", s.Description)
	b = appendString(b, "openIdConnectUrl", s.OpenIDConnectURL)
	return append(b, '}')
}

func (s *OpenIDConnectSecurityScheme) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "description":
			s.Description = r.String()
		case "openIdConnectUrl":
			s.OpenIDConnectURL = r.String()
		}
	}
}

// AppendJSON appends the JSON of s to b, without the wrapper that names its kind.
func (s *MutualTLSSecurityScheme) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "description", s.Description)
	return append(b, '}')
}

func (s *MutualTLSSecurityScheme) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		if name == "description" {
			s.Description = r.String()
		}
	}
}

func appendOAuthFlow(b []byte, f OAuthFlow) []byte {
	b = append(b, '{')
	switch f := f.(type) {
	case *AuthorizationCodeOAuthFlow:
		b = appendMessage(b, "authorizationCode", f)
	case *ClientCredentialsOAuthFlow:
		b = appendMessage(b, "clientCredentials", f)
	case *ImplicitOAuthFlow:
		b = appendMessage(b, "implicit", f)
	case *PasswordOAuthFlow:
		b = appendMessage(b, "password", f)
	case *DeviceCodeOAuthFlow:
		b = appendMessage(b, "deviceCode", f)
	case nil:
	}
	return append(b, '}')
}

// decodeOAuthFlow returns nil for a flow that is not known here.
func decodeOAuthFlow(r *jsonx.Reader) (f OAuthFlow) {
	var set string
	for name := range r.Present() {
		switch name {
		case "authorizationCode":
			f = decodeNew[AuthorizationCodeOAuthFlow](r)
		case "clientCredentials":
			f = decodeNew[ClientCredentialsOAuthFlow](r)
		case "implicit":
			f = decodeNew[ImplicitOAuthFlow](r)
		case "password":
			f = decodeNew[PasswordOAuthFlow](r)
		case "deviceCode":
			f = decodeNew[DeviceCodeOAuthFlow](r)
		default:
			continue
		}
		set = onlyOne(r, set, name)
	}
	return f
}

// AppendJSON appends the JSON of f to b, without the wrapper that names its kind.
func (f *AuthorizationCodeOAuthFlow) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "authorizationUrl", f.AuthorizationURL)
	b = appendString(b, "tokenUrl", f.TokenURL)
	b = appendText(b, "refreshUrl", f.RefreshURL)
	b = appendStringMap(b, "scopes", f.Scopes)
	b = appendFlag(b, "pkceRequired", f.PKCERequired)
	return append(b, '}')
}

func (f *AuthorizationCodeOAuthFlow) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "authorizationUrl":
			f.AuthorizationURL = r.String()
		case "tokenUrl":
			f.TokenURL = r.String()
		case "refreshUrl":
			f.RefreshURL = r.String()
		case "scopes":
			f.Scopes = decodeStringMap(r)
		case "pkceRequired":
			f.PKCERequired = r.Bool()
		}
	}
}

// AppendJSON appends the JSON of f to b, without the wrapper that names its kind.
func (f *ClientCredentialsOAuthFlow) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "tokenUrl", f.TokenURL)
	b = appendText(b, "refreshUrl", f.RefreshURL)
	b = appendStringMap(b, "scopes", f.Scopes)
	return append(b, '}')
}

func (f *ClientCredentialsOAuthFlow) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tokenUrl":
			f.TokenURL = r.String()
		case "refreshUrl":
			f.RefreshURL = r.String()
		case "scopes":
			f.Scopes = decodeStringMap(r)
		}
	}
}

// AppendJSON appends the JSON of f to b, without the wrapper that names its kind.
func (f *ImplicitOAuthFlow) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "authorizationUrl", f.AuthorizationURL)
	b = appendText(b, "refreshUrl", f.RefreshURL)
	if len(f.Scopes) > 0 {
		b = appendStringMap(b, "scopes", f.Scopes)
	}
	return append(b, '}')
}

func (f *ImplicitOAuthFlow) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "authorizationUrl":
			f.AuthorizationURL = r.String()
		case "refreshUrl":
			f.RefreshURL = r.String()
		case "scopes":
			f.Scopes = decodeStringMap(r)
		}
	}
}

// AppendJSON appends the JSON of f to b, without the wrapper that names its kind.
func (f *PasswordOAuthFlow) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tokenUrl", f.TokenURL)
	b = appendText(b, "refreshUrl", f.RefreshURL)
	if len(f.Scopes) > 0 {
		b = appendStringMap(b, "scopes", f.Scopes)
	}
	return append(b, '}')
}

func (f *PasswordOAuthFlow) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tokenUrl":
			f.TokenURL = r.String()
		case "refreshUrl":
			f.RefreshURL = r.String()
		case "scopes":
			f.Scopes = decodeStringMap(r)
		}
	}
}

// AppendJSON appends the JSON of f to b, without the wrapper that names its kind.
func (f *DeviceCodeOAuthFlow) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "deviceAuthorizationUrl", f.DeviceAuthorizationURL)
	b = appendString(b, "tokenUrl", f.TokenURL)
	b = appendText(b, "refreshUrl", f.RefreshURL)
	b = appendStringMap(b, "scopes", f.Scopes)
	return append(b, '}')
}

func (f *DeviceCodeOAuthFlow) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "deviceAuthorizationUrl":
			f.DeviceAuthorizationURL = r.String()
		case "tokenUrl":
			f.TokenURL = r.String()
		case "refreshUrl":
			f.RefreshURL = r.String()
		case "scopes":
			f.Scopes = decodeStringMap(r)
		}
	}
}
