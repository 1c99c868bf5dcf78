package a2a

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley/internal/jsonx"
)

// codec is what every message can do.
type codec interface {
	AppendJSON(b []byte) []byte
	MarshalJSON() ([]byte, error)
	UnmarshalJSON(b []byte) error
}

func ptr[T any](v T) *T { return &v }

// TestGolden writes each value, and reads what it wrote.
func TestGolden(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 123_999_999, time.FixedZone("", 2*60*60))
	message := &Message{
		MessageID: "m1", ContextID: "c1", TaskID: "t1", Role: RoleUser,
		Parts: []*Part{TextPart("<a&b> 😀\n")}, Metadata: Struct{"b": []byte("1.0"), "a": []byte(" [ 1 , \"x y\" ] ")},
		Extensions: []string{"https://e.example/1"}, ReferenceTaskIDs: []string{"t0"},
	}
	const messageJSON = `{"messageId":"m1","contextId":"c1","taskId":"t1","role":"ROLE_USER","parts":[{"text":"<a&b> 😀\n"}],` +
		`"metadata":{"a":[1,"x y"],"b":1.0},"extensions":["https://e.example/1"],"referenceTaskIds":["t0"]}`
	config := &TaskPushNotificationConfig{
		Tenant: "acme", ID: "p1", TaskID: "t1", URL: "https://h.example/", Token: "tok",
		Authentication: &AuthenticationInfo{Scheme: "Bearer", Credentials: "c"},
	}
	const configJSON = `{"tenant":"acme","id":"p1","taskId":"t1","url":"https://h.example/","token":"tok",` +
		`"authentication":{"scheme":"Bearer","credentials":"c"}}`
	artifact := &Artifact{
		ArtifactID: "a1", Name: "n", Description: "d", Parts: []*Part{DataPart([]int{1})}, Metadata: Struct{},
		Extensions: []string{"e"},
	}
	const artifactJSON = `{"artifactId":"a1","name":"n","description":"d","parts":[{"data":[1]}],"metadata":{},"extensions":["e"]}`
	task := &Task{
		ID: "t1", ContextID: "c1", Status: TaskStatus{State: TaskStateWorking, Message: message, Timestamp: at},
		Artifacts: []*Artifact{artifact}, History: []*Message{message}, Metadata: Struct{"k": []byte("null")},
	}
	const statusJSON = `{"state":"TASK_STATE_WORKING","message":` + messageJSON + `,"timestamp":"2026-01-31T10:00:00.123Z"}`
	const taskJSON = `{"id":"t1","contextId":"c1","status":` + statusJSON + `,"artifacts":[` + artifactJSON + `],"history":[` +
		messageJSON + `],"metadata":{"k":null}}`

	for _, tt := range []struct {
		in   codec
		want string
	}{
		{task, taskJSON},
		{&Task{}, `{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}`},
		{&Task{Artifacts: []*Artifact{}, History: []*Message{}}, `{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}`},
		{&task.Status, statusJSON},
		{&TaskStatus{}, `{"state":"TASK_STATE_UNSPECIFIED"}`},
		{message, messageJSON},
		{&Message{}, `{"messageId":"","role":"ROLE_UNSPECIFIED","parts":[]}`},
		{artifact, artifactJSON},
		{&Artifact{}, `{"artifactId":"","parts":[]}`},
		{
			&TaskStatusUpdateEvent{TaskID: "t1", ContextID: "c1", Status: task.Status, Metadata: Struct{"x": []byte("1")}},
			`{"taskId":"t1","contextId":"c1","status":` + statusJSON + `,"metadata":{"x":1}}`,
		},
		{&TaskStatusUpdateEvent{}, `{"taskId":"","contextId":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}`},
		{
			&TaskArtifactUpdateEvent{TaskID: "t1", ContextID: "c1", Artifact: artifact, Append: true, LastChunk: true, Metadata: Struct{"x": []byte("1")}},
			`{"taskId":"t1","contextId":"c1","artifact":` + artifactJSON + `,"append":true,"lastChunk":true,"metadata":{"x":1}}`,
		},
		{&TaskArtifactUpdateEvent{}, `{"taskId":"","contextId":""}`},

		{
			&Part{Content: Text("x"), Metadata: Struct{"k": []byte("1")}, Filename: "f", MediaType: "text/plain"},
			`{"text":"x","metadata":{"k":1},"filename":"f","mediaType":"text/plain"}`,
		},
		{&Part{Content: Text("")}, `{"text":""}`},
		{&Part{Content: Raw("\x00\xff\xfe")}, `{"raw":"AP/+"}`},
		{&Part{Content: Raw("\xff")}, `{"raw":"/w=="}`},
		{&Part{Content: Raw{}}, `{"raw":""}`},
		{&Part{Content: URL("https://f.example/a?b=1&c=2")}, `{"url":"https://f.example/a?b=1&c=2"}`},
		{&Part{Content: Data("null")}, `{"data":null}`},
		{&Part{Content: Data(`""`)}, `{"data":""}`},
		{&Part{Filename: "f"}, `{"filename":"f"}`},
		{&Part{}, `{}`},

		{&SendMessageRequest{
			Tenant: "acme", Message: message, Metadata: Struct{"k": []byte("1")},
			Configuration: &SendMessageConfiguration{
				AcceptedOutputModes: []string{"text/plain"}, TaskPushNotificationConfig: config,
				HistoryLength: ptr(int32(0)), ReturnImmediately: true,
			},
		}, `{"tenant":"acme","message":` + messageJSON + `,"configuration":{"acceptedOutputModes":["text/plain"],` +
			`"taskPushNotificationConfig":` + configJSON + `,"historyLength":0,"returnImmediately":true},"metadata":{"k":1}}`},
		{&SendMessageRequest{Configuration: &SendMessageConfiguration{}}, `{"configuration":{}}`},
		{&SendMessageResponse{Result: task}, `{"task":` + taskJSON + `}`},
		{&SendMessageResponse{Result: message}, `{"message":` + messageJSON + `}`},
		{&GetTaskRequest{Tenant: "acme", ID: "t1", HistoryLength: ptr(int32(-1))}, `{"tenant":"acme","id":"t1","historyLength":-1}`},
		{&GetTaskRequest{}, `{"id":""}`},
		{&ListTasksRequest{
			Tenant: "acme", ContextID: "c1", Status: TaskStateAuthRequired, PageSize: ptr(int32(5)), PageToken: "p",
			HistoryLength: ptr(int32(0)), StatusTimestampAfter: at, IncludeArtifacts: ptr(false),
		}, `{"tenant":"acme","contextId":"c1","status":"TASK_STATE_AUTH_REQUIRED","pageSize":5,"pageToken":"p","historyLength":0,` +
			`"statusTimestampAfter":"2026-01-31T10:00:00.123Z","includeArtifacts":false}`},
		{&ListTasksRequest{}, `{}`},
		{&ListTasksResponse{}, `{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}`},
		{
			&ListTasksResponse{Tasks: []*Task{{ID: "1"}, {ID: "2"}}, NextPageToken: "n", PageSize: 2, TotalSize: 5},
			`{"tasks":[{"id":"1","status":{"state":"TASK_STATE_UNSPECIFIED"}},{"id":"2","status":{"state":"TASK_STATE_UNSPECIFIED"}}],` +
				`"nextPageToken":"n","pageSize":2,"totalSize":5}`,
		},
		{&CancelTaskRequest{Tenant: "acme", ID: "t1", Metadata: Struct{"k": []byte("1")}}, `{"tenant":"acme","id":"t1","metadata":{"k":1}}`},
		{&CancelTaskRequest{}, `{"id":""}`},
		{&SubscribeToTaskRequest{Tenant: "acme", ID: "t1"}, `{"tenant":"acme","id":"t1"}`},
		{&SubscribeToTaskRequest{}, `{"id":""}`},
		{config, configJSON},
		{&TaskPushNotificationConfig{}, `{"url":""}`},
		{&AuthenticationInfo{}, `{"scheme":""}`},
		{&GetTaskPushNotificationConfigRequest{Tenant: "acme", TaskID: "t1", ID: "p1"}, `{"tenant":"acme","taskId":"t1","id":"p1"}`},
		{&GetTaskPushNotificationConfigRequest{}, `{"taskId":"","id":""}`},
		{&DeleteTaskPushNotificationConfigRequest{Tenant: "acme", TaskID: "t1", ID: "p1"}, `{"tenant":"acme","taskId":"t1","id":"p1"}`},
		{&DeleteTaskPushNotificationConfigRequest{}, `{"taskId":"","id":""}`},
		{
			&ListTaskPushNotificationConfigsRequest{Tenant: "acme", TaskID: "t1", PageSize: 5, PageToken: "p"},
			`{"tenant":"acme","taskId":"t1","pageSize":5,"pageToken":"p"}`,
		},
		{&ListTaskPushNotificationConfigsRequest{}, `{"taskId":""}`},
		{
			&ListTaskPushNotificationConfigsResponse{Configs: []*TaskPushNotificationConfig{config}, NextPageToken: "p"},
			`{"configs":[` + configJSON + `],"nextPageToken":"p"}`,
		},
		{&ListTaskPushNotificationConfigsResponse{}, `{}`},
		{&GetExtendedAgentCardRequest{Tenant: "acme"}, `{"tenant":"acme"}`},
		{&GetExtendedAgentCardRequest{}, `{}`},
		{&Empty{}, `{}`},

		{&AgentCard{
			Name: "n", Description: "d",
			SupportedInterfaces: []*AgentInterface{{URL: "https://a.example", ProtocolBinding: BindingREST, Tenant: "x", ProtocolVersion: "1.0"}},
			Provider:            &AgentProvider{URL: "https://p.example", Organization: "P"}, Version: "1", DocumentationURL: ptr(""),
			Capabilities: AgentCapabilities{
				Streaming: ptr(false), PushNotifications: ptr(true), ExtendedAgentCard: ptr(false),
				Extensions: []*AgentExtension{{URI: "u", Description: "d", Required: true, Params: Struct{"k": []byte("1")}}, {}},
			},
			SecuritySchemes: map[string]SecurityScheme{
				"e mtls": &MutualTLSSecurityScheme{Description: "d"},
				"d oidc": &OpenIDConnectSecurityScheme{Description: "d", OpenIDConnectURL: "https://o.example"},
				"b http": &HTTPAuthSecurityScheme{Description: "d", Scheme: "Bearer", BearerFormat: "JWT"},
				"a key":  &APIKeySecurityScheme{Description: "d", Location: "header", Name: "X-Key"},
				"c oauth": &OAuth2SecurityScheme{
					Description: "d", OAuth2MetadataURL: "https://m.example",
					Flows: &ClientCredentialsOAuthFlow{TokenURL: "t", RefreshURL: "r", Scopes: map[string]string{"b": "2", "a": "1"}},
				},
			},
			SecurityRequirements: []*SecurityRequirement{{Schemes: map[string][]string{"oauth": {"b", "a"}, "key": nil}}, {}},
			DefaultInputModes:    []string{"text/plain"}, DefaultOutputModes: []string{"application/json"},
			Skills: []*AgentSkill{{
				ID: "s", Name: "n", Description: "d", Tags: []string{"t"}, Examples: []string{"e"}, InputModes: []string{"i"},
				OutputModes: []string{"o"}, SecurityRequirements: []*SecurityRequirement{{Schemes: map[string][]string{"k": {"s"}}}},
			}, {}},
			Signatures: []*AgentCardSignature{{Protected: "p", Signature: "s", Header: Struct{"kid": []byte(`"1"`)}}, {}},
			IconURL:    ptr("https://i.example"),
		}, `{"name":"n","description":"d","supportedInterfaces":[{"url":"https://a.example","protocolBinding":"HTTP+JSON","tenant":"x","protocolVersion":"1.0"}],` +
			`"provider":{"url":"https://p.example","organization":"P"},"version":"1","documentationUrl":"",` +
			`"capabilities":{"streaming":false,"pushNotifications":true,"extensions":[{"uri":"u","description":"d","required":true,"params":{"k":1}},{}],"extendedAgentCard":false},` +
			`"securitySchemes":{"a key":{"apiKeySecurityScheme":{"description":"d","location":"header","name":"X-Key"}},` +
			`"b http":{"httpAuthSecurityScheme":{"description":"d","scheme":"Bearer","bearerFormat":"JWT"}},` +
			`"c oauth":{"oauth2SecurityScheme":{"description":"d","flows":{"clientCredentials":{"tokenUrl":"t","refreshUrl":"r","scopes":{"a":"1","b":"2"}}},"oauth2MetadataUrl":"https://m.example"}},` +
			`"d oidc":{"openIdConnectSecurityScheme":{"description":"d","openIdConnectUrl":"https://o.example"}},` +
			`"e mtls":{"mtlsSecurityScheme":{"description":"d"}}},` +
			`"securityRequirements":[{"schemes":{"key":{},"oauth":{"list":["b","a"]}}},{}],` +
			`"defaultInputModes":["text/plain"],"defaultOutputModes":["application/json"],` +
			`"skills":[{"id":"s","name":"n","description":"d","tags":["t"],"examples":["e"],"inputModes":["i"],"outputModes":["o"],` +
			`"securityRequirements":[{"schemes":{"k":{"list":["s"]}}}]},{"id":"","name":"","description":"","tags":[]}],` +
			`"signatures":[{"protected":"p","signature":"s","header":{"kid":"1"}},{"protected":"","signature":""}],"iconUrl":"https://i.example"}`},
		{&AgentCard{}, `{"name":"","description":"","supportedInterfaces":[],"version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`},
		{&AgentInterface{}, `{"url":"","protocolBinding":"","protocolVersion":""}`},
		{&AgentProvider{}, `{"url":"","organization":""}`},
		{&APIKeySecurityScheme{}, `{"location":"","name":""}`},
		{&HTTPAuthSecurityScheme{}, `{"scheme":""}`},
		{&OAuth2SecurityScheme{}, `{"flows":{}}`},
		{&OAuth2SecurityScheme{Flows: &AuthorizationCodeOAuthFlow{}}, `{"flows":{"authorizationCode":{"authorizationUrl":"","tokenUrl":"","scopes":{}}}}`},
		{&OAuth2SecurityScheme{Flows: &ImplicitOAuthFlow{}}, `{"flows":{"implicit":{}}}`},
		{&OAuth2SecurityScheme{Flows: &PasswordOAuthFlow{}}, `{"flows":{"password":{}}}`},
		{&OAuth2SecurityScheme{Flows: &DeviceCodeOAuthFlow{}}, `{"flows":{"deviceCode":{"deviceAuthorizationUrl":"","tokenUrl":"","scopes":{}}}}`},
		{&OpenIDConnectSecurityScheme{}, `{"openIdConnectUrl":""}`},
		{&MutualTLSSecurityScheme{}, `{}`},
		{
			&AuthorizationCodeOAuthFlow{AuthorizationURL: "a", TokenURL: "t", RefreshURL: "r", Scopes: map[string]string{"s": ""}, PKCERequired: true},
			`{"authorizationUrl":"a","tokenUrl":"t","refreshUrl":"r","scopes":{"s":""},"pkceRequired":true}`,
		},
		{&ClientCredentialsOAuthFlow{}, `{"tokenUrl":"","scopes":{}}`},
		{&ImplicitOAuthFlow{AuthorizationURL: "a", RefreshURL: "r", Scopes: map[string]string{"s": "d"}}, `{"authorizationUrl":"a","refreshUrl":"r","scopes":{"s":"d"}}`},
		{&PasswordOAuthFlow{TokenURL: "t", RefreshURL: "r", Scopes: map[string]string{"s": "d"}}, `{"tokenUrl":"t","refreshUrl":"r","scopes":{"s":"d"}}`},
		{
			&DeviceCodeOAuthFlow{DeviceAuthorizationURL: "d", TokenURL: "t", RefreshURL: "r", Scopes: map[string]string{"s": "d"}},
			`{"deviceAuthorizationUrl":"d","tokenUrl":"t","refreshUrl":"r","scopes":{"s":"d"}}`,
		},
	} {
		got := string(tt.in.AppendJSON([]byte("{")))
		if got != "{"+tt.want {
			t.Errorf("%T\n got %s\nwant %s", tt.in, got[1:], tt.want)
			continue
		}
		if m, err := tt.in.MarshalJSON(); err != nil || string(m) != tt.want {
			t.Errorf("%T.MarshalJSON: %s, %v", tt.in, m, err)
		}
		back := reflect.New(reflect.TypeOf(tt.in).Elem()).Interface().(codec)
		if err := back.UnmarshalJSON([]byte(tt.want)); err != nil {
			t.Errorf("%T: reading %s: %v", tt.in, tt.want, err)
		} else if again := string(back.AppendJSON(nil)); again != tt.want {
			t.Errorf("%T\nread and written %s\n           want %s", tt.in, again, tt.want)
		}
	}
}

func TestListTasksResponseWithArtifacts(t *testing.T) {
	s := ListTasksResponse{Tasks: []*Task{{}, {Artifacts: []*Artifact{{}}}}, WithArtifacts: true}
	const want = `{"tasks":[{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"},"artifacts":[]},` +
		`{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"},"artifacts":[{"artifactId":"","parts":[]}]}],` +
		`"nextPageToken":"","pageSize":0,"totalSize":0}`
	if got := string(s.AppendJSON(nil)); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestMarshalJSONOfValues(t *testing.T) {
	v := map[string]any{"card": AgentCard{Name: "n"}, "status": &TaskStatus{State: TaskStateWorking}, "nil": (*Task)(nil)}
	b, err := json.Marshal(v)
	const want = `{"card":{"name":"n","description":"","supportedInterfaces":[],"version":"","capabilities":{},` +
		`"defaultInputModes":[],"defaultOutputModes":[],"skills":[]},"nil":null,"status":{"state":"TASK_STATE_WORKING"}}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func TestPart(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Content
		err  string
	}{
		{`{}`, nil, ""},
		{`{"filename":"f"}`, nil, ""},
		{`{"text":null}`, nil, ""},
		{`{"text":null,"raw":null,"url":null}`, nil, ""},
		{`{"text":"x"}`, Text("x"), ""},
		{`{"text":""}`, Text(""), ""},
		{`{"raw":"AP_-"}`, Raw("\x00\xff\xfe"), ""},
		{`{"raw":""}`, Raw{}, ""},
		{`{"url":"u"}`, URL("u"), ""},
		{`{"url":""}`, URL(""), ""},
		{`{"data":{"a":1}}`, Data(`{"a":1}`), ""},
		{`{"data":null}`, Data("null"), ""},
		{`{"data":""}`, Data(`""`), ""},
		{`{"data":{}}`, Data(`{}`), ""},
		{`{"data":0}`, Data(`0`), ""},
		{`{"data":false}`, Data(`false`), ""},
		{`{"data":[]}`, Data(`[]`), ""},
		{`{"data": { "b" : 1 , "a":[ ] } }`, Data(`{ "b" : 1 , "a":[ ] }`), ""},
		// One that says something among some that do not, in any order.
		{`{"text":"","raw":"","url":"","data":{"a":1}}`, Data(`{"a":1}`), ""},
		{`{"data":null,"url":"u","raw":"","text":""}`, URL("u"), ""},
		{`{"text":"x","raw":null,"url":null,"data":null}`, Text("x"), ""},
		{`{"data":"","text":"x"}`, Text("x"), ""},
		{`{"text":"","raw":"AA=="}`, Raw{0}, ""},
		// None says anything.
		{`{"text":"","data":null}`, Text(""), ""},
		{`{"data":null,"raw":"","text":""}`, Text(""), ""},
		{`{"data":null,"url":"","raw":""}`, Raw{}, ""},
		{`{"data":null,"url":"","text":null}`, URL(""), ""},
		{`{"text":null,"data":null}`, Data("null"), ""},
		{`{"text":null,"data":"","url":null}`, Data(`""`), ""},
		{`{"text":"","data":""}`, Text(""), ""},
		// Two say something.
		{`{"text":"x","url":"u"}`, nil, "url: text and url are both set, a part has one of them"},
		{`{"data":{},"text":"x"}`, nil, "text: data and text are both set, a part has one of them"},
		{`{"raw":"AA==","data":0}`, nil, "data: raw and data are both set, a part has one of them"},
		{`{"text":"x","text":null}`, nil, "text: the name is there twice"},
		{`{"text":1}`, nil, "text: must be a string, not a number"},
		{`{"raw":"?"}`, nil, "raw: must be base64"},
		{`{"raw":[1,2]}`, nil, "raw: must be a string, not an array"},
		{`{"url":{}}`, nil, "url: must be a string, not an object"},
		{`{"data":{"a":1,"a":2}}`, nil, "data.a: the name is there twice"},
	} {
		var p Part
		err := p.UnmarshalJSON([]byte(tt.in))
		switch {
		case tt.err != "" && (err == nil || err.Error() != tt.err || !errors.Is(err, ErrInvalidParams)):
			t.Errorf("%s: %v, want %s", tt.in, err, tt.err)
		case tt.err == "" && (err != nil || !reflect.DeepEqual(p.Content, tt.want)):
			t.Errorf("%s: %T %s, %v; want %T %s", tt.in, p.Content, p.Content, err, tt.want, tt.want)
		}
	}
}

func TestErrorsHaveAPath(t *testing.T) {
	for _, tt := range []struct {
		into codec
		in   string
		path string
		msg  string
	}{
		{new(SendMessageRequest), `[]`, "", "must be an object, not an array"},
		{new(SendMessageRequest), `"x"`, "", "must be an object, not a string"},
		{new(SendMessageRequest), `{"message":[]}`, "message", "must be an object, not an array"},
		{new(SendMessageRequest), `{"message":{"message_id":7}}`, "message.messageId", "must be a string, not a number"},
		{new(SendMessageRequest), `{"message":{"role":"user"}}`, "message.role", `unknown value "user"`},
		{new(SendMessageRequest), `{"message":{"role":"role_user"}}`, "message.role", `unknown value "role_user"`},
		{new(SendMessageRequest), `{"message":{"role":"1"}}`, "message.role", `unknown value "1"`},
		{new(SendMessageRequest), `{"message":{"role":3}}`, "message.role", `unknown value 3`},
		{new(SendMessageRequest), `{"message":{"role":-1}}`, "message.role", `unknown value -1`},
		{new(SendMessageRequest), `{"message":{"role":1.5}}`, "message.role", `must be a whole number`},
		{new(SendMessageRequest), `{"message":{"role":true}}`, "message.role", `must be a whole number, not a boolean`},
		{
			new(SendMessageRequest), `{"message":{"role":"` + strings.Repeat("x", 100) + `"}}`, "message.role",
			`unknown value "` + strings.Repeat("x", 64) + `…"`,
		},
		{new(SendMessageRequest), `{"message":{"parts":{}}}`, "message.parts", "must be an array, not an object"},
		{new(SendMessageRequest), `{"message":{"parts":[{"text":"x"},null]}}`, "message.parts[1]", "must be an object, not null"},
		{new(SendMessageRequest), `{"message":{"parts":[{"text":"x"},{"text":1}]}}`, "message.parts[1].text", "must be a string, not a number"},
		{new(SendMessageRequest), `{"message":{"extensions":["a",null]}}`, "message.extensions[1]", "must be a string, not null"},
		{new(SendMessageRequest), `{"message":{"referenceTaskIds":"t"}}`, "message.referenceTaskIds", "must be an array, not a string"},
		{new(SendMessageRequest), `{"message":{"metadata":[]}}`, "message.metadata", "must be an object, not an array"},
		{new(SendMessageRequest), `{"metadata":{"my_key":{"my_name":1,"my_name":2}}}`, "metadata.my_key.my_name", "the name is there twice"},
		{new(SendMessageRequest), `{"messages":{"x":1,"x":2}}`, "messages.x", "the name is there twice"},
		{new(SendMessageRequest), `{"message":{},"message":{}}`, "message", "the name is there twice"},
		{new(SendMessageRequest), `{"message":{"taskId":"1","task_id":"2"}}`, "message.taskId", "the name is there twice"},
		{new(SendMessageRequest), `{"configuration":{"historyLength":2147483648}}`, "configuration.historyLength", "must be between -2147483648 and 2147483647"},
		{new(SendMessageRequest), `{"configuration":{"historyLength":"ten"}}`, "configuration.historyLength", "must be a whole number"},
		{new(SendMessageRequest), `{"configuration":{"returnImmediately":"true"}}`, "configuration.returnImmediately", "must be true or false, not a string"},
		{new(ListTasksRequest), `{"statusTimestampAfter":1767225600}`, "statusTimestampAfter", "must be a string, not a number"},
		{new(ListTasksRequest), `{"statusTimestampAfter":"yesterday"}`, "statusTimestampAfter", "must be an RFC 3339 time such as 2026-01-31T12:00:00Z"},
		{new(ListTasksRequest), `{"status":"TASK_STATE_DONE"}`, "status", `unknown value "TASK_STATE_DONE"`},
		{new(ListTasksRequest), `{"includeArtifacts":1}`, "includeArtifacts", "must be true or false, not a number"},
		{new(AgentCard), `{"skills":[{"tags":[1]}]}`, "skills[0].tags[0]", "must be a string, not a number"},
		{
			new(AgentCard), `{"securitySchemes":{"my_key":{"apiKeySecurityScheme":{"name":1}}}}`,
			"securitySchemes.my_key.apiKeySecurityScheme.name", "must be a string, not a number",
		},
		{new(AgentCard), `{"securitySchemes":{"my key":"x"}}`, `securitySchemes["my key"]`, "must be an object, not a string"},
		{
			new(AgentCard), `{"securitySchemes":{"k":{"apiKeySecurityScheme":{},"mtlsSecurityScheme":{}}}}`,
			"securitySchemes.k.mtlsSecurityScheme", "apiKeySecurityScheme and mtlsSecurityScheme are both set, only one may be",
		},
		{
			new(AgentCard), `{"securitySchemes":{"k":{"oauth2SecurityScheme":{"flows":{"implicit":{},"deviceCode":{}}}}}}`,
			"securitySchemes.k.oauth2SecurityScheme.flows.deviceCode", "implicit and deviceCode are both set, only one may be",
		},
		{
			new(AgentCard), `{"securitySchemes":{"k":{"oauth2SecurityScheme":{"flows":{"implicit":{"scopes":{"s":null}}}}}}}`,
			"securitySchemes.k.oauth2SecurityScheme.flows.implicit.scopes.s", "must be a string, not null",
		},
		{new(AgentCard), `{"securityRequirements":[{},{"k":["s",1]}]}`, "securityRequirements[1]", "must be scopes by scheme: lists of strings"},
		{new(SendMessageResponse), `{}`, "", "must have one of task and message"},
		{new(SendMessageResponse), `{"task":null}`, "", "must have one of task and message"},
		{new(SendMessageResponse), `{"task":{},"message":{}}`, "message", "task and message are both set, only one may be"},
	} {
		err := tt.into.UnmarshalJSON([]byte(tt.in))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%T %s: %v, want an error", tt.into, tt.in, err)
			continue
		}
		full := tt.path + ": " + tt.msg
		if tt.path == "" {
			full = tt.msg
		}
		want := &Error{Code: ErrInvalidParams, Message: full, Violations: []FieldViolation{{tt.path, tt.msg}}}
		if !reflect.DeepEqual(e, want) {
			t.Errorf("%T %s\n got %+v\nwant %+v", tt.into, tt.in, e, want)
		}
	}
}

func TestWhatIsNotJSON(t *testing.T) {
	for _, in := range []string{
		``, `{`, `{"message":{}}x`, `{"message":{"role":"user"}`, "{\"x\":\"\xff\"}", `{"x":"\ud800"}`, `{"x":01}`,
		`{"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, // 65 deep
	} {
		var q SendMessageRequest
		err := q.UnmarshalJSON([]byte(in))
		if !errors.Is(err, ErrParse) || !strings.HasPrefix(err.Error(), "invalid JSON at byte ") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestLeniency(t *testing.T) {
	type test struct {
		into     codec
		in, want string
	}
	for name, tests := range map[string][]test{
		"unknown fields and null are passed over": {
			{new(GetTaskRequest), `{"id":"t","new":{"a":[1]},"tenant":null,"historyLength":null}`, `{"id":"t"}`},
			{new(GetTaskRequest), `null`, `{"id":""}`},
			{new(Message), `{"parts":null,"metadata":null,"extensions":null,"role":null,"x":1}`, `{"messageId":"","role":"ROLE_UNSPECIFIED","parts":[]}`},
			{new(Task), `{"status":null,"history":null}`, `{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}`},
			{
				new(AgentCard), `{"skills":null,"capabilities":null,"x":{"y":[{}]}}`,
				`{"name":"","description":"","supportedInterfaces":[],"version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`,
			},
			{new(SendMessageResponse), `{"task":null,"message":{},"x":1}`, `{"message":{"messageId":"","role":"ROLE_UNSPECIFIED","parts":[]}}`},
			{new(Empty), `{"x":{"y":1}}`, `{}`},
			{new(Empty), `null`, `{}`},
		},
		"snake_case names": {
			{
				new(Message), `{"message_id":"m","reference_task_ids":["t"],"role":"ROLE_AGENT"}`,
				`{"messageId":"m","role":"ROLE_AGENT","parts":[],"referenceTaskIds":["t"]}`,
			},
			{
				new(OAuth2SecurityScheme), `{"oauth2_metadata_url":"u","flows":{"authorization_code":{"pkce_required":true}}}`,
				`{"flows":{"authorizationCode":{"authorizationUrl":"","tokenUrl":"","scopes":{},"pkceRequired":true}},"oauth2MetadataUrl":"u"}`,
			},
		},
		"enum numbers and quoted numbers": {
			{new(TaskStatus), `{"state":2}`, `{"state":"TASK_STATE_WORKING"}`},
			{new(TaskStatus), `{"state":8.0}`, `{"state":"TASK_STATE_AUTH_REQUIRED"}`},
			{new(Message), `{"role":2}`, `{"messageId":"","role":"ROLE_AGENT","parts":[]}`},
			{new(GetTaskRequest), `{"historyLength":"1e1"}`, `{"id":"","historyLength":10}`},
		},
		"D4, D5: earlier shapes of webhooks": {
			{new(SendMessageConfiguration), `{"pushNotificationConfig":{"url":"u","id":"p"}}`, `{"taskPushNotificationConfig":{"id":"p","url":"u"}}`},
			{new(SendMessageConfiguration), `{"push_notification_config":{"url":"u"}}`, `{"taskPushNotificationConfig":{"url":"u"}}`},
			{
				new(SendMessageConfiguration), `{"pushNotificationConfig":{"url":"old"},"taskPushNotificationConfig":{"url":"new"}}`,
				`{"taskPushNotificationConfig":{"url":"new"}}`,
			},
			{new(SendMessageConfiguration), `{"taskPushNotificationConfig":{"pushNotificationConfig":{"url":"u"}}}`, `{"taskPushNotificationConfig":{"url":"u"}}`},
			{
				new(TaskPushNotificationConfig), `{"taskId":"t","config":{"id":"p","url":"u","token":"k","authentication":{"scheme":"Bearer"}}}`,
				`{"id":"p","taskId":"t","url":"u","token":"k","authentication":{"scheme":"Bearer"}}`,
			},
			{new(TaskPushNotificationConfig), `{"parent":"tasks/t","pushNotificationConfig":{"id":"p","url":"u"}}`, `{"id":"p","taskId":"t","url":"u"}`},
			{new(TaskPushNotificationConfig), `{"parent":"tasks/t","config":{"pushNotificationConfig":{"url":"u"}}}`, `{"taskId":"t","url":"u"}`},
			{new(TaskPushNotificationConfig), `{"parent":"tasks/other","config":{"url":"old","id":"p"},"url":"new","taskId":"t"}`, `{"id":"p","taskId":"t","url":"new"}`},
			{new(TaskPushNotificationConfig), `{"parent":"tenants/x/tasks/t","url":"u"}`, `{"url":"u"}`},
			{new(TaskPushNotificationConfig), `{"parent":"tasks/t/x","url":"u"}`, `{"url":"u"}`},
			{new(TaskPushNotificationConfig), `{"config":null,"parent":null,"url":"u"}`, `{"url":"u"}`},
		},
		"D6: both forms of requirements": {
			{
				new(SecurityRequirement), `{"schemes":{"a":{"list":["r","w"]},"b":{},"c":{"list":null},"d":null}}`,
				`{"schemes":{"a":{"list":["r","w"]},"b":{},"c":{},"d":{}}}`,
			},
			{new(SecurityRequirement), `{"a":["r","w"],"b":[]}`, `{"schemes":{"a":{"list":["r","w"]},"b":{}}}`},
			{new(SecurityRequirement), `{"schemes":{"a":["r"]}}`, `{"schemes":{"a":{"list":["r"]}}}`},
			{new(SecurityRequirement), `{"schemes":["r"],"my_scheme":[]}`, `{"schemes":{"my_scheme":{},"schemes":{"list":["r"]}}}`},
			{new(SecurityRequirement), `{"x":["r"],"schemes":{"a":{}},"y":["r"]}`, `{"schemes":{"a":{}}}`},
			{new(SecurityRequirement), `{"new":[{"x":1}],"schemes":{"a":{}}}`, `{"schemes":{"a":{}}}`},
			{new(SecurityRequirement), `{"schemes":null,"other":{"z":1}}`, `{}`},
			{new(SecurityRequirement), `{}`, `{}`},
			{
				new(AgentSkill), `{"security":[{"a":["r"]},{"schemes":{"b":{}}}]}`,
				`{"id":"","name":"","description":"","tags":[],"securityRequirements":[{"schemes":{"a":{"list":["r"]}}},{"schemes":{"b":{}}}]}`,
			},
			{
				new(AgentSkill), `{"security":[{"old":[]}],"securityRequirements":[{"new":[]}]}`,
				`{"id":"","name":"","description":"","tags":[],"securityRequirements":[{"schemes":{"new":{}}}]}`,
			},
			{new(AgentCard), `{"security":[{"a":[]}]}`, `{"name":"","description":"","supportedInterfaces":[],"version":"","capabilities":{},` +
				`"securityRequirements":[{"schemes":{"a":{}}}],"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`},
		},
		"a scheme of an unknown kind is left out": {
			{
				new(AgentCard), `{"securitySchemes":{"new":{"quantumSecurityScheme":{"x":1}},"old":{"type":"http","scheme":"bearer"},"none":{},"null":null,` +
					`"http":{"httpAuthSecurityScheme":{"scheme":"Bearer"},"x":1}}}`,
				`{"name":"","description":"","supportedInterfaces":[],"version":"","capabilities":{},` +
					`"securitySchemes":{"http":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`,
			},
			{new(OAuth2SecurityScheme), `{"flows":{"newFlow":{}}}`, `{"flows":{}}`},
		},
		"D11: deprecated flows are read": {
			{
				new(OAuth2SecurityScheme), `{"flows":{"implicit":{"authorizationUrl":"a","scopes":{"s":"d"}}}}`,
				`{"flows":{"implicit":{"authorizationUrl":"a","scopes":{"s":"d"}}}}`,
			},
			{new(OAuth2SecurityScheme), `{"flows":{"password":{"tokenUrl":"t","scopes":{}}}}`, `{"flows":{"password":{"tokenUrl":"t"}}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tt := range tests {
				if err := tt.into.UnmarshalJSON([]byte(tt.in)); err != nil {
					t.Errorf("%T %s: %v", tt.into, tt.in, err)
				} else if got := string(tt.into.AppendJSON(nil)); got != tt.want {
					t.Errorf("%T %s\n got %s\nwant %s", tt.into, tt.in, got, tt.want)
				}
			}
		})
	}
	t.Run("two old shapes at once", func(t *testing.T) {
		var c TaskPushNotificationConfig
		err := c.UnmarshalJSON([]byte(`{"config":{},"pushNotificationConfig":{}}`))
		if err == nil || err.Error() != "pushNotificationConfig: config and pushNotificationConfig are both set, only one may be" {
			t.Errorf("error %v", err)
		}
	})
}

func TestOnlyWhatIsPresentIsSet(t *testing.T) {
	q := SendMessageRequest{
		Tenant: "path", Message: &Message{MessageID: "old", TaskID: "kept?"}, Metadata: Struct{"old": []byte("1")},
		Configuration: &SendMessageConfiguration{HistoryLength: ptr(int32(3))},
	}
	message := q.Message
	if err := q.UnmarshalJSON([]byte(`{"tenant":null,"message":{"messageId":"new"},"metadata":{}}`)); err != nil {
		t.Fatal(err)
	}
	const want = `{"tenant":"path","message":{"messageId":"new","role":"ROLE_UNSPECIFIED","parts":[]},"configuration":{"historyLength":3},"metadata":{}}`
	if got := string(q.AppendJSON(nil)); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	if message.MessageID != "old" {
		t.Error("the message that was there before was written into")
	}
	l := ListTasksRequest{ContextID: "c", Status: TaskStateWorking, PageSize: ptr(int32(1))}
	if err := l.UnmarshalJSON([]byte(`{"contextId":"","pageSize":2}`)); err != nil {
		t.Fatal(err)
	}
	if got := string(l.AppendJSON(nil)); got != `{"status":"TASK_STATE_WORKING","pageSize":2}` {
		t.Errorf("got %s", got)
	}
	p := Part{Content: Text("old"), Filename: "f"}
	if err := p.UnmarshalJSON([]byte(`{"mediaType":"m"}`)); err != nil || p.Content != Text("old") {
		t.Errorf("content %v, error %v", p.Content, err)
	}
}

func TestStreamResponse(t *testing.T) {
	for _, tt := range []struct {
		ev   Event
		want string
	}{
		{&Task{ID: "t"}, `{"task":{"id":"t","status":{"state":"TASK_STATE_UNSPECIFIED"}}}`},
		{&Message{MessageID: "m"}, `{"message":{"messageId":"m","role":"ROLE_UNSPECIFIED","parts":[]}}`},
		{&TaskStatusUpdateEvent{TaskID: "t"}, `{"statusUpdate":{"taskId":"t","contextId":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}}`},
		{&TaskArtifactUpdateEvent{TaskID: "t", Artifact: &Artifact{}}, `{"artifactUpdate":{"taskId":"t","contextId":"","artifact":{"artifactId":"","parts":[]}}}`},
	} {
		b := AppendStreamResponse([]byte("data: "), tt.ev)
		if string(b) != "data: "+tt.want {
			t.Errorf(" got %s\nwant %s", b, tt.want)
		}
		ev, err := ParseStreamResponse([]byte(tt.want))
		if err != nil || reflect.TypeOf(ev) != reflect.TypeOf(tt.ev) || string(AppendStreamResponse(nil, ev)) != tt.want {
			t.Errorf("%s: %#v, %v", tt.want, ev, err)
		}
	}
	if ev, err := ParseStreamResponse([]byte(`{"task":null,"status_update":{},"x":{"task":{}}}`)); err != nil || reflect.TypeOf(ev) != reflect.TypeFor[*TaskStatusUpdateEvent]() {
		t.Errorf("%#v, %v", ev, err)
	}
	for in, want := range map[string]string{
		`{}`:                                "must have one of task, message, statusUpdate and artifactUpdate",
		`null`:                              "must have one of task, message, statusUpdate and artifactUpdate",
		`{"task":null}`:                     "must have one of task, message, statusUpdate and artifactUpdate",
		`{"task":{},"statusUpdate":{}}`:     "statusUpdate: task and statusUpdate are both set, only one may be",
		`{"artifactUpdate":{"artifact":1}}`: "artifactUpdate.artifact: must be an object, not a number",
		`{"task":{}`:                        "invalid JSON at byte 10: unexpected end, ',' or '}' is missing",
	} {
		if ev, err := ParseStreamResponse([]byte(in)); err == nil || err.Error() != want || ev != nil {
			t.Errorf("%s: %v, %v; want %s", in, ev, err, want)
		}
	}
}

// What an author hands in with line breaks stays one line, which SSE and JSON Lines need.
func TestOneLine(t *testing.T) {
	task := &Task{
		Metadata: Struct{"a\nb": []byte("{\r\n \"x\": 1.50\n}")},
		History:  []*Message{{Parts: []*Part{{Content: Data("[\n 1,\r\n \" \\n \"\n]")}, {Content: Data{}}}}},
	}
	const want = `{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"},"history":[{"messageId":"","role":"ROLE_UNSPECIFIED",` +
		`"parts":[{"data":[1," \n "]},{"data":null}]}],"metadata":{"a\nb":{"x":1.50}}}`
	if got := string(task.AppendJSON(nil)); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestNothingReadIsPartOfTheInput(t *testing.T) {
	const card = `{"name":"n","documentationUrl":"u","supportedInterfaces":[{"url":"u","protocolBinding":"b"}],"version":"v",` +
		`"securitySchemes":{"s":{"oauth2SecurityScheme":{"flows":{"deviceCode":{"scopes":{"k":"v"}}}}}},` +
		`"securityRequirements":[{"plain":["scope"]},{"schemes":{"k":{"list":["scope"]}}}],"defaultInputModes":["m"],` +
		`"signatures":[{"protected":"p","header":{"k":"v"}}]}`
	for _, tt := range []struct {
		into codec
		in   string
	}{
		{new(SendMessageRequest), benchRequest},
		{new(Task), benchTask},
		{new(AgentCard), card},
		{new(Part), `{"raw":"AAAA","metadata":{"k":{"a":[1]}},"filename":"f"}`},
		{new(Part), `{"url":"https://u"}`},
		{new(SendMessageResponse), `{"message":{"messageId":"m","parts":[{"data":"text"}]}}`},
		{new(ListTasksRequest), `{"contextId":"c","pageToken":"p","status":"TASK_STATE_WORKING"}`},
		{new(TaskPushNotificationConfig), `{"parent":"tasks/t","config":{"url":"u","authentication":{"scheme":"s"}}}`},
	} {
		in := []byte(tt.in)
		if err := tt.into.UnmarshalJSON(in); err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		before := string(tt.into.AppendJSON(nil))
		for i := range in {
			in[i] = '#'
		}
		if after := string(tt.into.AppendJSON(nil)); after != before {
			t.Errorf("it changed with the input\nfrom %s\n  to %s", before, after)
		}
	}
}

// What a request may hold can be read again from the answer, the stream and the store, where it stands deeper.
func TestTheDeepestDataComesBack(t *testing.T) {
	send := func(depth int) (*SendMessageRequest, error) {
		q := new(SendMessageRequest)
		return q, q.UnmarshalJSON([]byte(`{"message":{"parts":[{"data":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}]}}`))
	}
	const around = 4 // request, message, parts, part
	if _, err := send(jsonx.MaxDepth - around + 1); !errors.Is(err, ErrParse) {
		t.Errorf("too deep: %v", err)
	}
	q, err := send(jsonx.MaxDepth - around)
	if err != nil {
		t.Fatal(err)
	}
	b := AppendStreamResponse(nil, &Task{Status: TaskStatus{Message: q.Message}, History: []*Message{q.Message}})
	if _, err := ParseStreamResponse(b); err != nil {
		t.Error(err)
	}
	r := jsonx.NewReplyReader([]byte(`{"jsonrpc":"2.0","result":` + string(b) + `}`))
	if r.Skip(); r.End() != nil {
		t.Error(r.Err())
	}
}

// Case 38 of the field cases: data comes back to the byte.
func TestDataIsExact(t *testing.T) {
	const data = `{"n":1,"big":9007199254740993,"z":null,"e":{},"l":[null,{}]}`
	var q SendMessageRequest
	if err := q.UnmarshalJSON([]byte(`{"message":{"parts":[{"data":` + data + `}],"metadata":{"m":` + data + `}}}`)); err != nil {
		t.Fatal(err)
	}
	echo := &Task{Artifacts: []*Artifact{{Parts: q.Message.Parts, Metadata: q.Message.Metadata}}}
	const want = `"artifacts":[{"artifactId":"","parts":[{"data":` + data + `}],"metadata":{"m":` + data + `}}]`
	if got := string(AppendStreamResponse(nil, echo)); !strings.Contains(got, want) {
		t.Errorf("%s\nhas no %s", got, want)
	}
}

// Case 39 of the field cases.
func TestBytesTextAndTimes(t *testing.T) {
	for _, raw := range []string{"AP/+", "AP_-", `AP\/+`} {
		var p Part
		if err := p.UnmarshalJSON([]byte(`{"raw":"` + raw + `"}`)); err != nil || string(p.Content.(Raw)) != "\x00\xff\xfe" {
			t.Errorf("%s: %v, %v", raw, p.Content, err)
		} else if got := string(p.AppendJSON(nil)); got != `{"raw":"AP/+"}` {
			t.Errorf("%s: written as %s", raw, got)
		}
	}
	for _, raw := range []string{"AP8=", "AP8"} {
		var p Part
		if err := p.UnmarshalJSON([]byte(`{"raw":"` + raw + `"}`)); err != nil || string(p.AppendJSON(nil)) != `{"raw":"AP8="}` {
			t.Errorf("%s: %s, %v", raw, p.AppendJSON(nil), err)
		}
	}
	if got := string(TextPart("<a&b> 😀").AppendJSON(nil)); got != `{"text":"<a&b> 😀"}` {
		t.Errorf("text written as %s", got)
	}
	local := time.Local
	time.Local = time.FixedZone("Asia/Tokyo", 9*60*60)
	defer func() { time.Local = local }()
	for in, want := range map[string]string{
		`"2026-01-31T12:00:00+02:00"`:           `"2026-01-31T10:00:00.000Z"`,
		`"2026-01-31T12:00:00Z"`:                `"2026-01-31T12:00:00.000Z"`,
		`"2026-01-31T12:00:00.123456789-01:30"`: `"2026-01-31T13:30:00.123Z"`,
	} {
		var q ListTasksRequest
		if err := q.UnmarshalJSON([]byte(`{"statusTimestampAfter":` + in + `}`)); err != nil {
			t.Errorf("%s: %v", in, err)
		} else if got := string(q.AppendJSON(nil)); got != `{"statusTimestampAfter":`+want+`}` {
			t.Errorf("%s: written as %s", in, got)
		}
	}
	if got := string((&TaskStatus{Timestamp: time.Date(2026, 1, 1, 0, 0, 0, 0, time.Local)}).AppendJSON(nil)); !strings.Contains(got, `"2025-12-31T15:00:00.000Z"`) {
		t.Errorf("a local time written as %s", got)
	}
}
