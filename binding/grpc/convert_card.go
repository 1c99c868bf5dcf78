package grpc

import (
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/parley-a2a/parley/a2a"
)

// The agent card (specification 4.4 and 4.5).

func (e *encoder) card(c *a2a.AgentCard) *pb.AgentCard {
	out := &pb.AgentCard{
		Name:                c.Name,
		Description:         c.Description,
		SupportedInterfaces: each(c.SupportedInterfaces, encodeInterface),
		Version:             c.Version,
		DocumentationUrl:    c.DocumentationURL,
		Capabilities: &pb.AgentCapabilities{
			Streaming:         c.Capabilities.Streaming,
			PushNotifications: c.Capabilities.PushNotifications,
			Extensions:        each(c.Capabilities.Extensions, e.extension),
			ExtendedAgentCard: c.Capabilities.ExtendedAgentCard,
		},
		SecurityRequirements: each(c.SecurityRequirements, encodeRequirement),
		DefaultInputModes:    c.DefaultInputModes,
		DefaultOutputModes:   c.DefaultOutputModes,
		Skills:               each(c.Skills, encodeSkill),
		Signatures:           each(c.Signatures, e.signature),
		IconUrl:              c.IconURL,
	}
	if p := c.Provider; p != nil {
		out.Provider = &pb.AgentProvider{Url: p.URL, Organization: p.Organization}
	}
	if c.SecuritySchemes != nil {
		out.SecuritySchemes = make(map[string]*pb.SecurityScheme, len(c.SecuritySchemes))
	}
	for name, s := range c.SecuritySchemes {
		out.SecuritySchemes[name] = encodeScheme(s)
	}
	return out
}

func (d *decoder) card(p at, c *pb.AgentCard) *a2a.AgentCard {
	out := &a2a.AgentCard{
		Name:                 c.GetName(),
		Description:          c.GetDescription(),
		SupportedInterfaces:  each(c.GetSupportedInterfaces(), decodeInterface),
		Version:              c.GetVersion(),
		DocumentationURL:     c.DocumentationUrl,
		Capabilities:         d.capabilities(at{&p, "capabilities", 0}, c.GetCapabilities()),
		SecurityRequirements: each(c.GetSecurityRequirements(), decodeRequirement),
		DefaultInputModes:    c.GetDefaultInputModes(),
		DefaultOutputModes:   c.GetDefaultOutputModes(),
		Skills:               each(c.GetSkills(), decodeSkill),
		IconURL:              c.IconUrl,
	}
	if v := c.GetProvider(); v != nil {
		out.Provider = &a2a.AgentProvider{URL: v.GetUrl(), Organization: v.GetOrganization()}
	}
	if c.GetSecuritySchemes() != nil {
		out.SecuritySchemes = make(map[string]a2a.SecurityScheme, len(c.GetSecuritySchemes()))
	}
	for name, s := range c.GetSecuritySchemes() {
		out.SecuritySchemes[name] = decodeScheme(s)
	}
	for i, s := range c.GetSignatures() {
		out.Signatures = append(out.Signatures, d.signature(at{&p, "signatures", i + 1}, s))
	}
	return out
}

func encodeInterface(i *a2a.AgentInterface) *pb.AgentInterface {
	return &pb.AgentInterface{
		Url: i.URL, ProtocolBinding: i.ProtocolBinding, Tenant: i.Tenant, ProtocolVersion: i.ProtocolVersion,
	}
}

func decodeInterface(i *pb.AgentInterface) *a2a.AgentInterface {
	return &a2a.AgentInterface{
		URL:             i.GetUrl(),
		ProtocolBinding: i.GetProtocolBinding(),
		Tenant:          i.GetTenant(),
		ProtocolVersion: i.GetProtocolVersion(),
	}
}

func (d *decoder) capabilities(p at, c *pb.AgentCapabilities) a2a.AgentCapabilities {
	if c == nil {
		return a2a.AgentCapabilities{}
	}
	out := a2a.AgentCapabilities{
		Streaming:         c.Streaming,
		PushNotifications: c.PushNotifications,
		ExtendedAgentCard: c.ExtendedAgentCard,
	}
	for i, x := range c.GetExtensions() {
		out.Extensions = append(out.Extensions, d.extension(at{&p, "extensions", i + 1}, x))
	}
	return out
}

func (e *encoder) extension(x *a2a.AgentExtension) *pb.AgentExtension {
	return &pb.AgentExtension{
		Uri: x.URI, Description: x.Description, Required: x.Required, Params: e.object(x.Params),
	}
}

func (d *decoder) extension(p at, x *pb.AgentExtension) *a2a.AgentExtension {
	return &a2a.AgentExtension{
		URI:         x.GetUri(),
		Description: x.GetDescription(),
		Required:    x.GetRequired(),
		Params:      d.object(at{&p, "params", 0}, x.GetParams()),
	}
}

func encodeSkill(s *a2a.AgentSkill) *pb.AgentSkill {
	return &pb.AgentSkill{
		Id:                   s.ID,
		Name:                 s.Name,
		Description:          s.Description,
		Tags:                 s.Tags,
		Examples:             s.Examples,
		InputModes:           s.InputModes,
		OutputModes:          s.OutputModes,
		SecurityRequirements: each(s.SecurityRequirements, encodeRequirement),
	}
}

func decodeSkill(s *pb.AgentSkill) *a2a.AgentSkill {
	return &a2a.AgentSkill{
		ID:                   s.GetId(),
		Name:                 s.GetName(),
		Description:          s.GetDescription(),
		Tags:                 s.GetTags(),
		Examples:             s.GetExamples(),
		InputModes:           s.GetInputModes(),
		OutputModes:          s.GetOutputModes(),
		SecurityRequirements: each(s.GetSecurityRequirements(), decodeRequirement),
	}
}

func (e *encoder) signature(s *a2a.AgentCardSignature) *pb.AgentCardSignature {
	return &pb.AgentCardSignature{Protected: s.Protected, Signature: s.Signature, Header: e.object(s.Header)}
}

func (d *decoder) signature(p at, s *pb.AgentCardSignature) *a2a.AgentCardSignature {
	return &a2a.AgentCardSignature{
		Protected: s.GetProtected(), Signature: s.GetSignature(), Header: d.object(at{&p, "header", 0}, s.GetHeader()),
	}
}

func encodeRequirement(r *a2a.SecurityRequirement) *pb.SecurityRequirement {
	out := &pb.SecurityRequirement{Schemes: make(map[string]*pb.StringList, len(r.Schemes))}
	for name, scopes := range r.Schemes {
		out.Schemes[name] = &pb.StringList{List: scopes}
	}
	return out
}

func decodeRequirement(r *pb.SecurityRequirement) *a2a.SecurityRequirement {
	out := &a2a.SecurityRequirement{Schemes: make(map[string][]string, len(r.GetSchemes()))}
	for name, scopes := range r.GetSchemes() {
		out.Schemes[name] = scopes.GetList()
	}
	return out
}

func encodeScheme(s a2a.SecurityScheme) *pb.SecurityScheme {
	out := new(pb.SecurityScheme)
	switch s := s.(type) {
	case *a2a.APIKeySecurityScheme:
		out.Scheme = &pb.SecurityScheme_ApiKeySecurityScheme{ApiKeySecurityScheme: &pb.APIKeySecurityScheme{
			Description: s.Description, Location: s.Location, Name: s.Name,
		}}
	case *a2a.HTTPAuthSecurityScheme:
		out.Scheme = &pb.SecurityScheme_HttpAuthSecurityScheme{HttpAuthSecurityScheme: &pb.HTTPAuthSecurityScheme{
			Description: s.Description, Scheme: s.Scheme, BearerFormat: s.BearerFormat,
		}}
	case *a2a.OAuth2SecurityScheme:
		out.Scheme = &pb.SecurityScheme_Oauth2SecurityScheme{Oauth2SecurityScheme: &pb.OAuth2SecurityScheme{
			Description: s.Description, Flows: encodeFlow(s.Flows), Oauth2MetadataUrl: s.OAuth2MetadataURL,
		}}
	case *a2a.OpenIDConnectSecurityScheme:
		out.Scheme = &pb.SecurityScheme_OpenIdConnectSecurityScheme{
			OpenIdConnectSecurityScheme: &pb.OpenIdConnectSecurityScheme{
				Description: s.Description, OpenIdConnectUrl: s.OpenIDConnectURL,
			},
		}
	case *a2a.MutualTLSSecurityScheme:
		out.Scheme = &pb.SecurityScheme_MtlsSecurityScheme{
			MtlsSecurityScheme: &pb.MutualTlsSecurityScheme{Description: s.Description},
		}
	}
	return out
}

func decodeScheme(s *pb.SecurityScheme) a2a.SecurityScheme {
	switch s := s.GetScheme().(type) {
	case *pb.SecurityScheme_ApiKeySecurityScheme:
		v := s.ApiKeySecurityScheme
		return &a2a.APIKeySecurityScheme{
			Description: v.GetDescription(), Location: v.GetLocation(), Name: v.GetName(),
		}
	case *pb.SecurityScheme_HttpAuthSecurityScheme:
		v := s.HttpAuthSecurityScheme
		return &a2a.HTTPAuthSecurityScheme{
			Description: v.GetDescription(), Scheme: v.GetScheme(), BearerFormat: v.GetBearerFormat(),
		}
	case *pb.SecurityScheme_Oauth2SecurityScheme:
		v := s.Oauth2SecurityScheme
		return &a2a.OAuth2SecurityScheme{
			Description: v.GetDescription(), Flows: decodeFlow(v.GetFlows()), OAuth2MetadataURL: v.GetOauth2MetadataUrl(),
		}
	case *pb.SecurityScheme_OpenIdConnectSecurityScheme:
		v := s.OpenIdConnectSecurityScheme
		return &a2a.OpenIDConnectSecurityScheme{
			Description: v.GetDescription(), OpenIDConnectURL: v.GetOpenIdConnectUrl(),
		}
	case *pb.SecurityScheme_MtlsSecurityScheme:
		return &a2a.MutualTLSSecurityScheme{Description: s.MtlsSecurityScheme.GetDescription()}
	}
	return nil
}

func encodeFlow(f a2a.OAuthFlow) *pb.OAuthFlows {
	out := new(pb.OAuthFlows)
	switch f := f.(type) {
	case *a2a.AuthorizationCodeOAuthFlow:
		out.Flow = &pb.OAuthFlows_AuthorizationCode{AuthorizationCode: &pb.AuthorizationCodeOAuthFlow{
			AuthorizationUrl: f.AuthorizationURL,
			TokenUrl:         f.TokenURL,
			RefreshUrl:       f.RefreshURL,
			Scopes:           f.Scopes,
			PkceRequired:     f.PKCERequired,
		}}
	case *a2a.ClientCredentialsOAuthFlow:
		out.Flow = &pb.OAuthFlows_ClientCredentials{ClientCredentials: &pb.ClientCredentialsOAuthFlow{
			TokenUrl: f.TokenURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes,
		}}
	case *a2a.ImplicitOAuthFlow:
		out.Flow = &pb.OAuthFlows_Implicit{Implicit: &pb.ImplicitOAuthFlow{
			AuthorizationUrl: f.AuthorizationURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes,
		}}
	case *a2a.PasswordOAuthFlow:
		out.Flow = &pb.OAuthFlows_Password{Password: &pb.PasswordOAuthFlow{
			TokenUrl: f.TokenURL, RefreshUrl: f.RefreshURL, Scopes: f.Scopes,
		}}
	case *a2a.DeviceCodeOAuthFlow:
		out.Flow = &pb.OAuthFlows_DeviceCode{DeviceCode: &pb.DeviceCodeOAuthFlow{
			DeviceAuthorizationUrl: f.DeviceAuthorizationURL,
			TokenUrl:               f.TokenURL,
			RefreshUrl:             f.RefreshURL,
			Scopes:                 f.Scopes,
		}}
	}
	return out
}

func decodeFlow(f *pb.OAuthFlows) a2a.OAuthFlow {
	switch f := f.GetFlow().(type) {
	case *pb.OAuthFlows_AuthorizationCode:
		v := f.AuthorizationCode
		return &a2a.AuthorizationCodeOAuthFlow{
			AuthorizationURL: v.GetAuthorizationUrl(),
			TokenURL:         v.GetTokenUrl(),
			RefreshURL:       v.GetRefreshUrl(),
			Scopes:           v.GetScopes(),
			PKCERequired:     v.GetPkceRequired(),
		}
	case *pb.OAuthFlows_ClientCredentials:
		v := f.ClientCredentials
		return &a2a.ClientCredentialsOAuthFlow{
			TokenURL: v.GetTokenUrl(), RefreshURL: v.GetRefreshUrl(), Scopes: v.GetScopes(),
		}
	case *pb.OAuthFlows_Implicit:
		v := f.Implicit
		return &a2a.ImplicitOAuthFlow{
			AuthorizationURL: v.GetAuthorizationUrl(), RefreshURL: v.GetRefreshUrl(), Scopes: v.GetScopes(),
		}
	case *pb.OAuthFlows_Password:
		v := f.Password
		return &a2a.PasswordOAuthFlow{
			TokenURL: v.GetTokenUrl(), RefreshURL: v.GetRefreshUrl(), Scopes: v.GetScopes(),
		}
	case *pb.OAuthFlows_DeviceCode:
		v := f.DeviceCode
		return &a2a.DeviceCodeOAuthFlow{
			DeviceAuthorizationURL: v.GetDeviceAuthorizationUrl(),
			TokenURL:               v.GetTokenUrl(),
			RefreshURL:             v.GetRefreshUrl(),
			Scopes:                 v.GetScopes(),
		}
	}
	return nil
}
