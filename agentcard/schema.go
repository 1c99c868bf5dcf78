package agentcard

import "strings"

// message is a message of a2a.proto, as far as signing and validation need to know it.
type message struct {
	clause string // of the specification, where it is described
	fields []field
	union  bool // exactly one field is set: a oneof
	byName map[string]int
}

// field is one field of a message. A field that is neither required nor optional has no presence of its own: its
// default value is the same as its absence.
type field struct {
	name  string
	kind  kind
	many  many
	of    *message // of a field of messages
	keeps keeps
}

type kind uint8

const (
	text   kind = iota // string
	flag               // bool
	object             // message
	data               // google.protobuf.Struct
)

type many uint8

const (
	one     many = iota
	list         // repeated
	mapping      // map<string, …>
)

type keeps uint8

const (
	plain    keeps = iota
	required       // google.api.field_behavior REQUIRED
	optional       // the proto's keyword
)

func newMessage(clause string, fields ...field) *message {
	m := &message{clause: clause, fields: fields, byName: make(map[string]int, 2*len(fields))}
	for i, f := range fields {
		m.byName[f.name] = i
		m.byName[snake(f.name)] = i
	}
	return m
}

func newUnion(clause string, fields ...field) *message {
	m := newMessage(clause, fields...)
	m.union = true
	return m
}

// snake returns the proto's name of a field.
func snake(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// The messages of a card, in the order of the proto, each after those it holds.
var (
	agentInterface = newMessage("4.4.6",
		field{name: "url", keeps: required},
		field{name: "protocolBinding", keeps: required},
		field{name: "tenant"},
		field{name: "protocolVersion", keeps: required})

	agentProvider = newMessage("4.4.2",
		field{name: "url", keeps: required},
		field{name: "organization", keeps: required})

	agentExtension = newMessage("4.4.4",
		field{name: "uri"},
		field{name: "description"},
		field{name: "required", kind: flag},
		field{name: "params", kind: data})

	agentCapabilities = newMessage("4.4.3",
		field{name: "streaming", kind: flag, keeps: optional},
		field{name: "pushNotifications", kind: flag, keeps: optional},
		field{name: "extensions", kind: object, many: list, of: agentExtension},
		field{name: "extendedAgentCard", kind: flag, keeps: optional})

	stringList = newMessage("4.5", field{name: "list", many: list})

	securityRequirement = newMessage("4.5",
		field{name: "schemes", kind: object, many: mapping, of: stringList})

	agentSkill = newMessage("4.4.5",
		field{name: "id", keeps: required},
		field{name: "name", keeps: required},
		field{name: "description", keeps: required},
		field{name: "tags", many: list, keeps: required},
		field{name: "examples", many: list},
		field{name: "inputModes", many: list},
		field{name: "outputModes", many: list},
		field{name: "securityRequirements", kind: object, many: list, of: securityRequirement})

	agentCardSignature = newMessage("4.4.7",
		field{name: "protected", keeps: required},
		field{name: "signature", keeps: required},
		field{name: "header", kind: data})

	authorizationCodeFlow = newMessage("4.5.8",
		field{name: "authorizationUrl", keeps: required},
		field{name: "tokenUrl", keeps: required},
		field{name: "refreshUrl"},
		field{name: "scopes", many: mapping, keeps: required},
		field{name: "pkceRequired", kind: flag})

	clientCredentialsFlow = newMessage("4.5.9",
		field{name: "tokenUrl", keeps: required},
		field{name: "refreshUrl"},
		field{name: "scopes", many: mapping, keeps: required})

	implicitFlow = newMessage("4.5.7",
		field{name: "authorizationUrl"},
		field{name: "refreshUrl"},
		field{name: "scopes", many: mapping})

	passwordFlow = newMessage("4.5.7",
		field{name: "tokenUrl"},
		field{name: "refreshUrl"},
		field{name: "scopes", many: mapping})

	deviceCodeFlow = newMessage("4.5.10",
		field{name: "deviceAuthorizationUrl", keeps: required},
		field{name: "tokenUrl", keeps: required},
		field{name: "refreshUrl"},
		field{name: "scopes", many: mapping, keeps: required})

	oauthFlows = newUnion("4.5.7",
		field{name: "authorizationCode", kind: object, of: authorizationCodeFlow},
		field{name: "clientCredentials", kind: object, of: clientCredentialsFlow},
		field{name: "implicit", kind: object, of: implicitFlow},
		field{name: "password", kind: object, of: passwordFlow},
		field{name: "deviceCode", kind: object, of: deviceCodeFlow})

	apiKeyScheme = newMessage("4.5.2",
		field{name: "description"},
		field{name: "location", keeps: required},
		field{name: "name", keeps: required})

	httpAuthScheme = newMessage("4.5.3",
		field{name: "description"},
		field{name: "scheme", keeps: required},
		field{name: "bearerFormat"})

	oauth2Scheme = newMessage("4.5.4",
		field{name: "description"},
		field{name: "flows", kind: object, of: oauthFlows, keeps: required},
		field{name: "oauth2MetadataUrl"})

	openIDConnectScheme = newMessage("4.5.5",
		field{name: "description"},
		field{name: "openIdConnectUrl", keeps: required})

	mutualTLSScheme = newMessage("4.5.6", field{name: "description"})

	securityScheme = newUnion("4.5.1",
		field{name: "apiKeySecurityScheme", kind: object, of: apiKeyScheme},
		field{name: "httpAuthSecurityScheme", kind: object, of: httpAuthScheme},
		field{name: "oauth2SecurityScheme", kind: object, of: oauth2Scheme},
		field{name: "openIdConnectSecurityScheme", kind: object, of: openIDConnectScheme},
		field{name: "mtlsSecurityScheme", kind: object, of: mutualTLSScheme})

	agentCard = newMessage("4.4.1",
		field{name: "name", keeps: required},
		field{name: "description", keeps: required},
		field{name: "supportedInterfaces", kind: object, many: list, of: agentInterface, keeps: required},
		field{name: "provider", kind: object, of: agentProvider},
		field{name: "version", keeps: required},
		field{name: "documentationUrl", keeps: optional},
		field{name: "capabilities", kind: object, of: agentCapabilities, keeps: required},
		field{name: "securitySchemes", kind: object, many: mapping, of: securityScheme},
		field{name: "securityRequirements", kind: object, many: list, of: securityRequirement},
		field{name: "defaultInputModes", many: list, keeps: required},
		field{name: "defaultOutputModes", many: list, keeps: required},
		field{name: "skills", kind: object, many: list, of: agentSkill, keeps: required},
		field{name: signatures, kind: object, many: list, of: agentCardSignature},
		field{name: "iconUrl", keeps: optional})
)

// signatures is the field that the canonical form leaves out.
const signatures = "signatures"
