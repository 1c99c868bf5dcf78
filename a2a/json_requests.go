package a2a

import (
	"strconv"
	"strings"

	"github.com/parley-a2a/parley/internal/jsonx"
)

// AppendJSON appends the JSON of q to b.
func (q *SendMessageRequest) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", q.Tenant)
	b = appendMessage(b, "message", q.Message)
	b = appendMessage(b, "configuration", q.Configuration)
	b = appendStruct(b, "metadata", q.Metadata)
	return append(b, '}')
}

func (q *SendMessageRequest) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tenant":
			q.Tenant = r.String()
		case "message":
			q.Message = decodeNew[Message](r)
		case "configuration":
			q.Configuration = decodeNew[SendMessageConfiguration](r)
		case "metadata":
			q.Metadata = decodeStruct(r)
		}
	}
}

// AppendJSON appends the JSON of s to b.
func (s *SendMessageResponse) AppendJSON(b []byte) []byte { return AppendStreamResponse(b, s.Result) }

func (s *SendMessageResponse) decode(r *jsonx.Reader) {
	var set string
	for name := range r.Present() {
		switch name {
		case "task":
			s.Result = decodeNew[Task](r)
		case "message":
			s.Result = decodeNew[Message](r)
		default:
			continue
		}
		set = onlyOne(r, set, name)
	}
	if set == "" {
		r.Fail("must have one of task and message")
	}
}

// AppendJSON appends the JSON of c to b.
func (c *SendMessageConfiguration) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendStrings(b, "acceptedOutputModes", c.AcceptedOutputModes)
	b = appendMessage(b, "taskPushNotificationConfig", c.TaskPushNotificationConfig)
	b = appendInt32(b, "historyLength", c.HistoryLength)
	b = appendFlag(b, "returnImmediately", c.ReturnImmediately)
	return append(b, '}')
}

// decode also takes the name that the webhook had in earlier versions, pushNotificationConfig; the present name
// wins.
func (c *SendMessageConfiguration) decode(r *jsonx.Reader) {
	var old *TaskPushNotificationConfig
	for name := range r.Present() {
		switch name {
		case "acceptedOutputModes":
			c.AcceptedOutputModes = decodeStrings(r)
		case "taskPushNotificationConfig":
			c.TaskPushNotificationConfig = decodeNew[TaskPushNotificationConfig](r)
		case "pushNotificationConfig":
			old = decodeNew[TaskPushNotificationConfig](r)
		case "historyLength":
			c.HistoryLength = decodeInt32(r)
		case "returnImmediately":
			c.ReturnImmediately = r.Bool()
		}
	}
	if c.TaskPushNotificationConfig == nil {
		c.TaskPushNotificationConfig = old
	}
}

// AppendJSON appends the JSON of q to b.
func (q *GetTaskRequest) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", q.Tenant)
	b = appendString(b, "id", q.ID)
	b = appendInt32(b, "historyLength", q.HistoryLength)
	return append(b, '}')
}

func (q *GetTaskRequest) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tenant":
			q.Tenant = r.String()
		case "id":
			q.ID = r.String()
		case "historyLength":
			q.HistoryLength = decodeInt32(r)
		}
	}
}

// AppendJSON appends the JSON of q to b.
func (q *ListTasksRequest) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", q.Tenant)
	b = appendText(b, "contextId", q.ContextID)
	if q.Status != TaskStateUnspecified {
		b = appendEnum(b, "status", q.Status.String())
	}
	b = appendInt32(b, "pageSize", q.PageSize)
	b = appendText(b, "pageToken", q.PageToken)
	b = appendInt32(b, "historyLength", q.HistoryLength)
	b = appendTime(b, "statusTimestampAfter", q.StatusTimestampAfter)
	b = appendBool(b, "includeArtifacts", q.IncludeArtifacts)
	return append(b, '}')
}

func (q *ListTasksRequest) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tenant":
			q.Tenant = r.String()
		case "contextId":
			q.ContextID = r.String()
		case "status":
			q.Status = TaskState(decodeEnum(r, taskStateNames[:]))
		case "pageSize":
			q.PageSize = decodeInt32(r)
		case "pageToken":
			q.PageToken = r.String()
		case "historyLength":
			q.HistoryLength = decodeInt32(r)
		case "statusTimestampAfter":
			q.StatusTimestampAfter = r.Time()
		case "includeArtifacts":
			q.IncludeArtifacts = decodeBool(r)
		}
	}
}

// AppendJSON appends the JSON of s to b.
func (s *ListTasksResponse) AppendJSON(b []byte) []byte {
	b = append(b, `{"tasks":[`...)
	for i, t := range s.Tasks {
		if i > 0 {
			b = append(b, ',')
		}
		b = t.appendJSON(b, s.WithArtifacts)
	}
	b = append(b, ']')
	b = appendString(b, "nextPageToken", s.NextPageToken)
	b = appendInt32(b, "pageSize", &s.PageSize)
	b = appendInt32(b, "totalSize", &s.TotalSize)
	return append(b, '}')
}

func (s *ListTasksResponse) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tasks":
			s.Tasks = decodeList[Task](r)
		case "nextPageToken":
			s.NextPageToken = r.String()
		case "pageSize":
			s.PageSize = r.Int32()
		case "totalSize":
			s.TotalSize = r.Int32()
		}
	}
}

// AppendJSON appends the JSON of q to b.
func (q *CancelTaskRequest) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", q.Tenant)
	b = appendString(b, "id", q.ID)
	b = appendStruct(b, "metadata", q.Metadata)
	return append(b, '}')
}

func (q *CancelTaskRequest) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tenant":
			q.Tenant = r.String()
		case "id":
			q.ID = r.String()
		case "metadata":
			q.Metadata = decodeStruct(r)
		}
	}
}

// AppendJSON appends the JSON of q to b.
func (q *SubscribeToTaskRequest) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", q.Tenant)
	b = appendString(b, "id", q.ID)
	return append(b, '}')
}

func (q *SubscribeToTaskRequest) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tenant":
			q.Tenant = r.String()
		case "id":
			q.ID = r.String()
		}
	}
}

// AppendJSON appends the JSON of c to b.
func (c *TaskPushNotificationConfig) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", c.Tenant)
	b = appendText(b, "id", c.ID)
	b = appendText(b, "taskId", c.TaskID)
	b = appendString(b, "url", c.URL)
	b = appendText(b, "token", c.Token)
	b = appendMessage(b, "authentication", c.Authentication)
	return append(b, '}')
}

// decode also takes the shapes of earlier versions, in which the webhook is an object of its own, config or
// pushNotificationConfig, and the task may be named by a parent "tasks/{id}". What stands in the present
// place wins.
func (c *TaskPushNotificationConfig) decode(r *jsonx.Reader) {
	var nested *TaskPushNotificationConfig
	var parent string
	for name := range r.Present() {
		switch name {
		case "tenant":
			c.Tenant = r.String()
		case "id":
			c.ID = r.String()
		case "taskId":
			c.TaskID = r.String()
		case "url":
			c.URL = r.String()
		case "token":
			c.Token = r.String()
		case "authentication":
			c.Authentication = decodeNew[AuthenticationInfo](r)
		case "config", "pushNotificationConfig":
			if nested != nil {
				r.Fail("config and pushNotificationConfig are both set, only one may be")
			}
			nested = decodeNew[TaskPushNotificationConfig](r)
		case "parent":
			parent = r.String()
		}
	}
	if nested != nil {
		c.fill(nested)
	}
	if id, ok := strings.CutPrefix(parent, "tasks/"); ok && c.TaskID == "" && !strings.Contains(id, "/") {
		c.TaskID = id
	}
}

// fill sets what is empty to what old says.
func (c *TaskPushNotificationConfig) fill(old *TaskPushNotificationConfig) {
	for _, f := range [...]struct {
		to   *string
		from string
	}{
		{&c.Tenant, old.Tenant}, {&c.ID, old.ID}, {&c.TaskID, old.TaskID}, {&c.URL, old.URL}, {&c.Token, old.Token},
	} {
		if *f.to == "" {
			*f.to = f.from
		}
	}
	if c.Authentication == nil {
		c.Authentication = old.Authentication
	}
}

// AppendJSON appends the JSON of a to b.
func (a *AuthenticationInfo) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendString(b, "scheme", a.Scheme)
	b = appendText(b, "credentials", a.Credentials)
	return append(b, '}')
}

func (a *AuthenticationInfo) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "scheme":
			a.Scheme = r.String()
		case "credentials":
			a.Credentials = r.String()
		}
	}
}

// AppendJSON appends the JSON of q to b.
func (q *GetTaskPushNotificationConfigRequest) AppendJSON(b []byte) []byte {
	return appendConfigRef(b, q.Tenant, q.TaskID, q.ID)
}

func (q *GetTaskPushNotificationConfigRequest) decode(r *jsonx.Reader) {
	decodeConfigRef(r, &q.Tenant, &q.TaskID, &q.ID)
}

// AppendJSON appends the JSON of q to b.
func (q *DeleteTaskPushNotificationConfigRequest) AppendJSON(b []byte) []byte {
	return appendConfigRef(b, q.Tenant, q.TaskID, q.ID)
}

func (q *DeleteTaskPushNotificationConfigRequest) decode(r *jsonx.Reader) {
	decodeConfigRef(r, &q.Tenant, &q.TaskID, &q.ID)
}

func appendConfigRef(b []byte, tenant, taskID, id string) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", tenant)
	b = appendString(b, "taskId", taskID)
	b = appendString(b, "id", id)
	return append(b, '}')
}

func decodeConfigRef(r *jsonx.Reader, tenant, taskID, id *string) {
	for name := range r.Present() {
		switch name {
		case "tenant":
			*tenant = r.String()
		case "taskId":
			*taskID = r.String()
		case "id":
			*id = r.String()
		}
	}
}

// AppendJSON appends the JSON of q to b.
func (q *ListTaskPushNotificationConfigsRequest) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", q.Tenant)
	b = appendString(b, "taskId", q.TaskID)
	if q.PageSize != 0 {
		b = appendInt32(b, "pageSize", &q.PageSize)
	}
	b = appendText(b, "pageToken", q.PageToken)
	return append(b, '}')
}

func (q *ListTaskPushNotificationConfigsRequest) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "tenant":
			q.Tenant = r.String()
		case "taskId":
			q.TaskID = r.String()
		case "pageSize":
			q.PageSize = r.Int32()
		case "pageToken":
			q.PageToken = r.String()
		}
	}
}

// AppendJSON appends the JSON of s to b.
func (s *ListTaskPushNotificationConfigsResponse) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendMessages(b, "configs", s.Configs)
	b = appendText(b, "nextPageToken", s.NextPageToken)
	return append(b, '}')
}

func (s *ListTaskPushNotificationConfigsResponse) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		switch name {
		case "configs":
			s.Configs = decodeList[TaskPushNotificationConfig](r)
		case "nextPageToken":
			s.NextPageToken = r.String()
		}
	}
}

// AppendJSON appends the JSON of q to b.
func (q *GetExtendedAgentCardRequest) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendText(b, "tenant", q.Tenant)
	return append(b, '}')
}

func (q *GetExtendedAgentCardRequest) decode(r *jsonx.Reader) {
	for name := range r.Present() {
		if name == "tenant" {
			q.Tenant = r.String()
		}
	}
}

// AppendJSON appends {} to b.
func (*Empty) AppendJSON(b []byte) []byte { return append(b, "{}"...) }

// decode takes any object: what it holds is not known here.
func (*Empty) decode(r *jsonx.Reader) {
	for range r.Fields() { //nolint:revive // every member is skipped
	}
}

// appendInt32 appends a number unless it is nil.
func appendInt32(b []byte, name string, n *int32) []byte {
	if n == nil {
		return b
	}
	return strconv.AppendInt(appendName(b, name), int64(*n), 10)
}
