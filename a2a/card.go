package a2a

// AgentCard describes an agent to its callers (specification 4.4.1).
type AgentCard struct {
	Name                 string            // required
	Description          string            // required
	SupportedInterfaces  []*AgentInterface // required; the first is preferred
	Provider             *AgentProvider
	Version              string // required; of the agent
	DocumentationURL     *string
	Capabilities         AgentCapabilities // required
	SecuritySchemes      map[string]SecurityScheme
	SecurityRequirements []*SecurityRequirement
	DefaultInputModes    []string      // required; media types
	DefaultOutputModes   []string      // required; media types
	Skills               []*AgentSkill // required
	Signatures           []*AgentCardSignature
	IconURL              *string
}

// Protocol bindings an [AgentInterface] may name (specification 4.4.6).
const (
	BindingJSONRPC = "JSONRPC"
	BindingGRPC    = "GRPC"
	BindingREST    = "HTTP+JSON"
)

// AgentInterface is an address with the binding spoken there (specification 4.4.6).
type AgentInterface struct {
	URL             string // required; host:port for gRPC
	ProtocolBinding string // required; [BindingJSONRPC], [BindingGRPC], [BindingREST] or a URI
	Tenant          string // sent back in every request to this interface
	ProtocolVersion string // required; such as 1.0
}

// AgentProvider is who runs an agent (specification 4.4.2).
type AgentProvider struct {
	URL          string // required
	Organization string // required
}

// AgentCapabilities are the optional parts of the protocol an agent speaks (specification 4.4.3).
type AgentCapabilities struct {
	Streaming         *bool
	PushNotifications *bool
	Extensions        []*AgentExtension
	ExtendedAgentCard *bool
}

// AgentExtension declares a protocol extension (specification 4.4.4).
type AgentExtension struct {
	URI         string
	Description string
	Required    bool
	Params      Struct
}

// AgentSkill is one thing an agent can do (specification 4.4.5).
type AgentSkill struct {
	ID                   string   // required
	Name                 string   // required
	Description          string   // required
	Tags                 []string // required
	Examples             []string
	InputModes           []string // overrides the card's
	OutputModes          []string // overrides the card's
	SecurityRequirements []*SecurityRequirement
}

// AgentCardSignature is a JSON Web Signature of a card (specification 4.4.7).
type AgentCardSignature struct {
	Protected string // required; base64url
	Signature string // required; base64url
	Header    Struct
}

// SecurityRequirement names schemes that must all be met, each with its scopes.
type SecurityRequirement struct {
	Schemes map[string][]string
}

// SecurityScheme is a way to authenticate (specification 4.5.1): one of [*APIKeySecurityScheme],
// [*HTTPAuthSecurityScheme], [*OAuth2SecurityScheme], [*OpenIDConnectSecurityScheme] and
// [*MutualTLSSecurityScheme].
//
//sumtype:decl
type SecurityScheme interface{ isSecurityScheme() }

// APIKeySecurityScheme is a key in a header, a query parameter or a cookie (specification 4.5.2).
type APIKeySecurityScheme struct {
	Description string
	Location    string // required; query, header or cookie
	Name        string // required
}

// HTTPAuthSecurityScheme is an HTTP Authorization scheme (specification 4.5.3).
type HTTPAuthSecurityScheme struct {
	Description  string
	Scheme       string // required; such as Bearer
	BearerFormat string
}

// OAuth2SecurityScheme is OAuth 2.0 (specification 4.5.4).
type OAuth2SecurityScheme struct {
	Description       string
	Flows             OAuthFlow // required
	OAuth2MetadataURL string
}

// OpenIDConnectSecurityScheme is OpenID Connect discovery (specification 4.5.5).
type OpenIDConnectSecurityScheme struct {
	Description      string
	OpenIDConnectURL string // required
}

// MutualTLSSecurityScheme is a client certificate (specification 4.5.6).
type MutualTLSSecurityScheme struct {
	Description string
}

func (*APIKeySecurityScheme) isSecurityScheme()        {}
func (*HTTPAuthSecurityScheme) isSecurityScheme()      {}
func (*OAuth2SecurityScheme) isSecurityScheme()        {}
func (*OpenIDConnectSecurityScheme) isSecurityScheme() {}
func (*MutualTLSSecurityScheme) isSecurityScheme()     {}

// OAuthFlow is one OAuth 2.0 flow (specification 4.5.7): one of [*AuthorizationCodeOAuthFlow],
// [*ClientCredentialsOAuthFlow], [*ImplicitOAuthFlow], [*PasswordOAuthFlow] and [*DeviceCodeOAuthFlow].
//
//sumtype:decl
type OAuthFlow interface{ isOAuthFlow() }

// AuthorizationCodeOAuthFlow is the authorization code flow (specification 4.5.8).
type AuthorizationCodeOAuthFlow struct {
	AuthorizationURL string // required
	TokenURL         string // required
	RefreshURL       string
	Scopes           map[string]string // required; scope to description
	PKCERequired     bool
}

// ClientCredentialsOAuthFlow is the client credentials flow (specification 4.5.9).
type ClientCredentialsOAuthFlow struct {
	TokenURL   string // required
	RefreshURL string
	Scopes     map[string]string // required
}

// ImplicitOAuthFlow is deprecated by the specification: it is read, never produced.
type ImplicitOAuthFlow struct {
	AuthorizationURL string
	RefreshURL       string
	Scopes           map[string]string
}

// PasswordOAuthFlow is deprecated by the specification: it is read, never produced.
type PasswordOAuthFlow struct {
	TokenURL   string
	RefreshURL string
	Scopes     map[string]string
}

// DeviceCodeOAuthFlow is the device authorization flow of RFC 8628 (specification 4.5.10).
type DeviceCodeOAuthFlow struct {
	DeviceAuthorizationURL string // required
	TokenURL               string // required
	RefreshURL             string
	Scopes                 map[string]string // required
}

func (*AuthorizationCodeOAuthFlow) isOAuthFlow() {}
func (*ClientCredentialsOAuthFlow) isOAuthFlow() {}
func (*ImplicitOAuthFlow) isOAuthFlow()          {}
func (*PasswordOAuthFlow) isOAuthFlow()          {}
func (*DeviceCodeOAuthFlow) isOAuthFlow()        {}
