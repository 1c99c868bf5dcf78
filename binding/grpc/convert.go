package grpc

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/parley-a2a/parley/a2a"
)

// encoder turns package a2a's types into messages. Its methods are called like those of decoder, beside
// which they stand: whoever adds a field adds it twice. After the call err says whether the message is good.
type encoder struct{ err error }

// decoder turns messages into package a2a's types. After the call err says what was wrong first, if
// anything.
type decoder struct{ err *fieldError }

// fieldError says what is wrong with a field of a message.
type fieldError struct{ path, what string }

func (e *fieldError) Error() string {
	if e.path == "" {
		return e.what
	}
	return e.path + ": " + e.what
}

// at is where a decoder is in the message, as a list from the field up to the root. It is made for every
// field and read only when one is wrong.
type at struct {
	up    *at
	name  string
	index int // of an element, from 1; 0 for what is no list
}

// append appends the path. It copies what it reads, so that the list can stay on the stack.
func (p *at) append(b []byte) []byte {
	if p.up == nil {
		return b
	}
	if b = p.up.append(b); len(b) > 0 {
		b = append(b, '.')
	}
	b = append(b, p.name...)
	if p.index > 0 {
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(p.index-1), 10)
		b = append(b, ']')
	}
	return b
}

func (d *decoder) fail(p at, what string) {
	if d.err == nil {
		d.err = &fieldError{path: string(p.append(nil)), what: what}
	}
}

// each converts a list whose elements cannot be wrong.
func each[In, Out any](in []In, f func(In) Out) []Out {
	if in == nil {
		return nil
	}
	out := make([]Out, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// Values.

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) value(raw json.RawMessage) *structpb.Value {
	v, err := parseValue(raw)
	if err != nil {
		e.fail(fmt.Errorf("a value in data or metadata %w", err))
	}
	return v
}

func (d *decoder) value(p at, v *structpb.Value) json.RawMessage {
	raw, err := appendValue(nil, v, 0)
	if err != nil {
		d.fail(p, err.Error())
	}
	return raw
}

func (e *encoder) object(s a2a.Struct) *structpb.Struct {
	if s == nil {
		return nil
	}
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(s))}
	for name, raw := range s {
		out.Fields[name] = e.value(raw)
	}
	return out
}

func (d *decoder) object(p at, s *structpb.Struct) a2a.Struct {
	if s == nil {
		return nil
	}
	out := make(a2a.Struct, len(s.GetFields()))
	for name, v := range s.GetFields() {
		out[name] = d.value(at{&p, name, 0}, v)
	}
	return out
}

func (e *encoder) time(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	ts := timestamppb.New(t.UTC().Truncate(time.Millisecond))
	if err := ts.CheckValid(); err != nil {
		e.fail(err)
	}
	return ts
}

func (d *decoder) time(p at, ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	if ts.CheckValid() != nil {
		d.fail(p, "is not a time of the years 1 to 9999")
		return time.Time{}
	}
	return ts.AsTime().Truncate(time.Millisecond)
}

func (d *decoder) state(p at, s pb.TaskState) a2a.TaskState {
	state := a2a.TaskState(s)
	if state != a2a.TaskStateUnspecified && state.String() == a2a.TaskStateUnspecified.String() {
		d.fail(p, "is not a task state: "+strconv.Itoa(int(s)))
	}
	return state
}

func (d *decoder) role(p at, r pb.Role) a2a.Role {
	role := a2a.Role(r)
	if role != a2a.RoleUnspecified && role.String() == a2a.RoleUnspecified.String() {
		d.fail(p, "is not a role: "+strconv.Itoa(int(r)))
	}
	return role
}

// Tasks, messages and events (specification 4.1 and 4.2).

func (e *encoder) task(t *a2a.Task) *pb.Task {
	return &pb.Task{
		Id:        t.ID,
		ContextId: t.ContextID,
		Status:    e.status(t.Status),
		Artifacts: each(t.Artifacts, e.artifact),
		History:   each(t.History, e.message),
		Metadata:  e.object(t.Metadata),
	}
}

func (d *decoder) task(p at, t *pb.Task) *a2a.Task {
	out := &a2a.Task{
		ID:        t.GetId(),
		ContextID: t.GetContextId(),
		Status:    d.status(at{&p, "status", 0}, t.GetStatus()),
		Metadata:  d.object(at{&p, "metadata", 0}, t.GetMetadata()),
	}
	if n := len(t.GetArtifacts()); n > 0 {
		out.Artifacts = make([]*a2a.Artifact, n)
	}
	for i, a := range t.GetArtifacts() {
		out.Artifacts[i] = d.artifact(at{&p, "artifacts", i + 1}, a)
	}
	if n := len(t.GetHistory()); n > 0 {
		out.History = make([]*a2a.Message, n)
	}
	for i, m := range t.GetHistory() {
		out.History[i] = d.message(at{&p, "history", i + 1}, m)
	}
	return out
}

func (e *encoder) status(s a2a.TaskStatus) *pb.TaskStatus {
	out := &pb.TaskStatus{State: pb.TaskState(s.State), Timestamp: e.time(s.Timestamp)}
	if s.Message != nil {
		out.Message = e.message(s.Message)
	}
	return out
}

func (d *decoder) status(p at, s *pb.TaskStatus) a2a.TaskStatus {
	out := a2a.TaskStatus{
		State:     d.state(at{&p, "state", 0}, s.GetState()),
		Timestamp: d.time(at{&p, "timestamp", 0}, s.GetTimestamp()),
	}
	if s.GetMessage() != nil {
		out.Message = d.message(at{&p, "message", 0}, s.GetMessage())
	}
	return out
}

func (e *encoder) message(m *a2a.Message) *pb.Message {
	return &pb.Message{
		MessageId:        m.MessageID,
		ContextId:        m.ContextID,
		TaskId:           m.TaskID,
		Role:             pb.Role(m.Role),
		Parts:            each(m.Parts, e.part),
		Metadata:         e.object(m.Metadata),
		Extensions:       m.Extensions,
		ReferenceTaskIds: m.ReferenceTaskIDs,
	}
}

func (d *decoder) message(p at, m *pb.Message) *a2a.Message {
	return &a2a.Message{
		MessageID:        m.GetMessageId(),
		ContextID:        m.GetContextId(),
		TaskID:           m.GetTaskId(),
		Role:             d.role(at{&p, "role", 0}, m.GetRole()),
		Parts:            d.parts(p, m.GetParts()),
		Metadata:         d.object(at{&p, "metadata", 0}, m.GetMetadata()),
		Extensions:       m.GetExtensions(),
		ReferenceTaskIDs: m.GetReferenceTaskIds(),
	}
}

func (e *encoder) part(p *a2a.Part) *pb.Part {
	out := &pb.Part{Metadata: e.object(p.Metadata), Filename: p.Filename, MediaType: p.MediaType}
	switch c := p.Content.(type) {
	case a2a.Text:
		out.Content = &pb.Part_Text{Text: string(c)}
	case a2a.Raw:
		out.Content = &pb.Part_Raw{Raw: c}
	case a2a.URL:
		out.Content = &pb.Part_Url{Url: string(c)}
	case a2a.Data:
		out.Content = &pb.Part_Data{Data: e.value(json.RawMessage(c))}
	}
	return out
}

func (d *decoder) parts(p at, parts []*pb.Part) []*a2a.Part {
	if len(parts) == 0 {
		return nil
	}
	out := make([]*a2a.Part, len(parts))
	for i, part := range parts {
		out[i] = d.part(at{&p, "parts", i + 1}, part)
	}
	return out
}

func (d *decoder) part(p at, part *pb.Part) *a2a.Part {
	out := &a2a.Part{
		Metadata:  d.object(at{&p, "metadata", 0}, part.GetMetadata()),
		Filename:  part.GetFilename(),
		MediaType: part.GetMediaType(),
	}
	switch c := part.GetContent().(type) {
	case *pb.Part_Text:
		out.Content = a2a.Text(c.Text)
	case *pb.Part_Raw:
		out.Content = a2a.Raw(c.Raw)
	case *pb.Part_Url:
		out.Content = a2a.URL(c.Url)
	case *pb.Part_Data:
		out.Content = a2a.Data(d.value(at{&p, "data", 0}, c.Data))
	}
	return out
}

func (e *encoder) artifact(a *a2a.Artifact) *pb.Artifact {
	return &pb.Artifact{
		ArtifactId:  a.ArtifactID,
		Name:        a.Name,
		Description: a.Description,
		Parts:       each(a.Parts, e.part),
		Metadata:    e.object(a.Metadata),
		Extensions:  a.Extensions,
	}
}

func (d *decoder) artifact(p at, a *pb.Artifact) *a2a.Artifact {
	return &a2a.Artifact{
		ArtifactID:  a.GetArtifactId(),
		Name:        a.GetName(),
		Description: a.GetDescription(),
		Parts:       d.parts(p, a.GetParts()),
		Metadata:    d.object(at{&p, "metadata", 0}, a.GetMetadata()),
		Extensions:  a.GetExtensions(),
	}
}

func (e *encoder) statusUpdate(ev *a2a.TaskStatusUpdateEvent) *pb.TaskStatusUpdateEvent {
	return &pb.TaskStatusUpdateEvent{
		TaskId:    ev.TaskID,
		ContextId: ev.ContextID,
		Status:    e.status(ev.Status),
		Metadata:  e.object(ev.Metadata),
	}
}

func (d *decoder) statusUpdate(p at, ev *pb.TaskStatusUpdateEvent) *a2a.TaskStatusUpdateEvent {
	return &a2a.TaskStatusUpdateEvent{
		TaskID:    ev.GetTaskId(),
		ContextID: ev.GetContextId(),
		Status:    d.status(at{&p, "status", 0}, ev.GetStatus()),
		Metadata:  d.object(at{&p, "metadata", 0}, ev.GetMetadata()),
	}
}

func (e *encoder) artifactUpdate(ev *a2a.TaskArtifactUpdateEvent) *pb.TaskArtifactUpdateEvent {
	out := &pb.TaskArtifactUpdateEvent{
		TaskId:    ev.TaskID,
		ContextId: ev.ContextID,
		Append:    ev.Append,
		LastChunk: ev.LastChunk,
		Metadata:  e.object(ev.Metadata),
	}
	if ev.Artifact != nil {
		out.Artifact = e.artifact(ev.Artifact)
	}
	return out
}

func (d *decoder) artifactUpdate(p at, ev *pb.TaskArtifactUpdateEvent) *a2a.TaskArtifactUpdateEvent {
	out := &a2a.TaskArtifactUpdateEvent{
		TaskID:    ev.GetTaskId(),
		ContextID: ev.GetContextId(),
		Append:    ev.GetAppend(),
		LastChunk: ev.GetLastChunk(),
		Metadata:  d.object(at{&p, "metadata", 0}, ev.GetMetadata()),
	}
	if ev.GetArtifact() == nil {
		d.fail(at{&p, "artifact", 0}, "is required")
		return out
	}
	out.Artifact = d.artifact(at{&p, "artifact", 0}, ev.GetArtifact())
	return out
}

func (e *encoder) streamResponse(ev a2a.Event) *pb.StreamResponse {
	out := new(pb.StreamResponse)
	switch ev := ev.(type) {
	case *a2a.Task:
		out.Payload = &pb.StreamResponse_Task{Task: e.task(ev)}
	case *a2a.Message:
		out.Payload = &pb.StreamResponse_Message{Message: e.message(ev)}
	case *a2a.TaskStatusUpdateEvent:
		out.Payload = &pb.StreamResponse_StatusUpdate{StatusUpdate: e.statusUpdate(ev)}
	case *a2a.TaskArtifactUpdateEvent:
		out.Payload = &pb.StreamResponse_ArtifactUpdate{ArtifactUpdate: e.artifactUpdate(ev)}
	}
	return out
}

func (d *decoder) streamResponse(p at, r *pb.StreamResponse) a2a.Event {
	switch ev := r.GetPayload().(type) {
	case *pb.StreamResponse_Task:
		return d.task(at{&p, "task", 0}, ev.Task)
	case *pb.StreamResponse_Message:
		return d.message(at{&p, "message", 0}, ev.Message)
	case *pb.StreamResponse_StatusUpdate:
		return d.statusUpdate(at{&p, "statusUpdate", 0}, ev.StatusUpdate)
	case *pb.StreamResponse_ArtifactUpdate:
		return d.artifactUpdate(at{&p, "artifactUpdate", 0}, ev.ArtifactUpdate)
	}
	d.fail(p, "one of task, message, statusUpdate and artifactUpdate is required")
	return nil
}

// Requests and responses (specification 3.1 and 3.2).

func (e *encoder) sendMessageRequest(r *a2a.SendMessageRequest) *pb.SendMessageRequest {
	out := &pb.SendMessageRequest{Tenant: r.Tenant, Metadata: e.object(r.Metadata)}
	if r.Message != nil {
		out.Message = e.message(r.Message)
	}
	if c := r.Configuration; c != nil {
		out.Configuration = &pb.SendMessageConfiguration{
			AcceptedOutputModes: c.AcceptedOutputModes,
			HistoryLength:       c.HistoryLength,
			ReturnImmediately:   c.ReturnImmediately,
		}
		if c.TaskPushNotificationConfig != nil {
			out.Configuration.TaskPushNotificationConfig = e.pushConfig(c.TaskPushNotificationConfig)
		}
	}
	return out
}

func (d *decoder) sendMessageRequest(p at, r *pb.SendMessageRequest) *a2a.SendMessageRequest {
	out := &a2a.SendMessageRequest{Tenant: r.GetTenant(), Metadata: d.object(at{&p, "metadata", 0}, r.GetMetadata())}
	if r.GetMessage() != nil {
		out.Message = d.message(at{&p, "message", 0}, r.GetMessage())
	}
	if c := r.GetConfiguration(); c != nil {
		out.Configuration = &a2a.SendMessageConfiguration{
			AcceptedOutputModes: c.GetAcceptedOutputModes(),
			HistoryLength:       c.HistoryLength,
			ReturnImmediately:   c.GetReturnImmediately(),
		}
		if c.GetTaskPushNotificationConfig() != nil {
			out.Configuration.TaskPushNotificationConfig = d.pushConfig(p, c.GetTaskPushNotificationConfig())
		}
	}
	return out
}

func (e *encoder) sendMessageResponse(r *a2a.SendMessageResponse) *pb.SendMessageResponse {
	out := new(pb.SendMessageResponse)
	switch res := r.Result.(type) {
	case *a2a.Task:
		out.Payload = &pb.SendMessageResponse_Task{Task: e.task(res)}
	case *a2a.Message:
		out.Payload = &pb.SendMessageResponse_Message{Message: e.message(res)}
	}
	return out
}

func (d *decoder) sendMessageResponse(p at, r *pb.SendMessageResponse) a2a.SendMessageResult {
	switch res := r.GetPayload().(type) {
	case *pb.SendMessageResponse_Task:
		return d.task(at{&p, "task", 0}, res.Task)
	case *pb.SendMessageResponse_Message:
		return d.message(at{&p, "message", 0}, res.Message)
	}
	d.fail(p, "one of task and message is required")
	return nil
}

func (e *encoder) getTaskRequest(r *a2a.GetTaskRequest) *pb.GetTaskRequest {
	return &pb.GetTaskRequest{Tenant: r.Tenant, Id: r.ID, HistoryLength: r.HistoryLength}
}

func (d *decoder) getTaskRequest(_ at, r *pb.GetTaskRequest) *a2a.GetTaskRequest {
	return &a2a.GetTaskRequest{Tenant: r.GetTenant(), ID: r.GetId(), HistoryLength: r.HistoryLength}
}

func (e *encoder) listTasksRequest(r *a2a.ListTasksRequest) *pb.ListTasksRequest {
	return &pb.ListTasksRequest{
		Tenant:               r.Tenant,
		ContextId:            r.ContextID,
		Status:               pb.TaskState(r.Status),
		PageSize:             r.PageSize,
		PageToken:            r.PageToken,
		HistoryLength:        r.HistoryLength,
		StatusTimestampAfter: e.time(r.StatusTimestampAfter),
		IncludeArtifacts:     r.IncludeArtifacts,
	}
}

func (d *decoder) listTasksRequest(p at, r *pb.ListTasksRequest) *a2a.ListTasksRequest {
	return &a2a.ListTasksRequest{
		Tenant:               r.GetTenant(),
		ContextID:            r.GetContextId(),
		Status:               d.state(at{&p, "status", 0}, r.GetStatus()),
		PageSize:             r.PageSize,
		PageToken:            r.GetPageToken(),
		HistoryLength:        r.HistoryLength,
		StatusTimestampAfter: d.time(at{&p, "statusTimestampAfter", 0}, r.GetStatusTimestampAfter()),
		IncludeArtifacts:     r.IncludeArtifacts,
	}
}

func (e *encoder) listTasksResponse(r *a2a.ListTasksResponse) *pb.ListTasksResponse {
	return &pb.ListTasksResponse{
		Tasks:         each(r.Tasks, e.task),
		NextPageToken: r.NextPageToken,
		PageSize:      r.PageSize,
		TotalSize:     r.TotalSize,
	}
}

func (d *decoder) listTasksResponse(p at, r *pb.ListTasksResponse) *a2a.ListTasksResponse {
	out := &a2a.ListTasksResponse{
		NextPageToken: r.GetNextPageToken(),
		PageSize:      r.GetPageSize(),
		TotalSize:     r.GetTotalSize(),
	}
	if n := len(r.GetTasks()); n > 0 {
		out.Tasks = make([]*a2a.Task, n)
	}
	for i, t := range r.GetTasks() {
		out.Tasks[i] = d.task(at{&p, "tasks", i + 1}, t)
	}
	return out
}

func (e *encoder) cancelTaskRequest(r *a2a.CancelTaskRequest) *pb.CancelTaskRequest {
	return &pb.CancelTaskRequest{Tenant: r.Tenant, Id: r.ID, Metadata: e.object(r.Metadata)}
}

func (d *decoder) cancelTaskRequest(p at, r *pb.CancelTaskRequest) *a2a.CancelTaskRequest {
	return &a2a.CancelTaskRequest{
		Tenant: r.GetTenant(), ID: r.GetId(), Metadata: d.object(at{&p, "metadata", 0}, r.GetMetadata()),
	}
}

func (e *encoder) subscribeToTaskRequest(r *a2a.SubscribeToTaskRequest) *pb.SubscribeToTaskRequest {
	return &pb.SubscribeToTaskRequest{Tenant: r.Tenant, Id: r.ID}
}

func (d *decoder) subscribeToTaskRequest(_ at, r *pb.SubscribeToTaskRequest) *a2a.SubscribeToTaskRequest {
	return &a2a.SubscribeToTaskRequest{Tenant: r.GetTenant(), ID: r.GetId()}
}

func (e *encoder) pushConfig(c *a2a.TaskPushNotificationConfig) *pb.TaskPushNotificationConfig {
	out := &pb.TaskPushNotificationConfig{
		Tenant: c.Tenant,
		Id:     c.ID,
		TaskId: c.TaskID,
		Url:    c.URL,
		Token:  c.Token,
	}
	if a := c.Authentication; a != nil {
		out.Authentication = &pb.AuthenticationInfo{Scheme: a.Scheme, Credentials: a.Credentials}
	}
	return out
}

func (d *decoder) pushConfig(_ at, c *pb.TaskPushNotificationConfig) *a2a.TaskPushNotificationConfig {
	out := &a2a.TaskPushNotificationConfig{
		Tenant: c.GetTenant(),
		ID:     c.GetId(),
		TaskID: c.GetTaskId(),
		URL:    c.GetUrl(),
		Token:  c.GetToken(),
	}
	if a := c.GetAuthentication(); a != nil {
		out.Authentication = &a2a.AuthenticationInfo{Scheme: a.GetScheme(), Credentials: a.GetCredentials()}
	}
	return out
}

func (e *encoder) getPushConfigRequest(r *a2a.GetTaskPushNotificationConfigRequest) *pb.GetTaskPushNotificationConfigRequest {
	return &pb.GetTaskPushNotificationConfigRequest{Tenant: r.Tenant, TaskId: r.TaskID, Id: r.ID}
}

func (d *decoder) getPushConfigRequest(_ at, r *pb.GetTaskPushNotificationConfigRequest) *a2a.GetTaskPushNotificationConfigRequest {
	return &a2a.GetTaskPushNotificationConfigRequest{Tenant: r.GetTenant(), TaskID: r.GetTaskId(), ID: r.GetId()}
}

func (e *encoder) deletePushConfigRequest(r *a2a.DeleteTaskPushNotificationConfigRequest) *pb.DeleteTaskPushNotificationConfigRequest {
	return &pb.DeleteTaskPushNotificationConfigRequest{Tenant: r.Tenant, TaskId: r.TaskID, Id: r.ID}
}

func (d *decoder) deletePushConfigRequest(_ at, r *pb.DeleteTaskPushNotificationConfigRequest) *a2a.DeleteTaskPushNotificationConfigRequest {
	return &a2a.DeleteTaskPushNotificationConfigRequest{Tenant: r.GetTenant(), TaskID: r.GetTaskId(), ID: r.GetId()}
}

func (e *encoder) empty(*a2a.Empty) *emptypb.Empty { return new(emptypb.Empty) }

func (d *decoder) empty(at, *emptypb.Empty) *a2a.Empty { return new(a2a.Empty) }

func (e *encoder) listPushConfigsRequest(r *a2a.ListTaskPushNotificationConfigsRequest) *pb.ListTaskPushNotificationConfigsRequest {
	return &pb.ListTaskPushNotificationConfigsRequest{
		Tenant: r.Tenant, TaskId: r.TaskID, PageSize: r.PageSize, PageToken: r.PageToken,
	}
}

func (d *decoder) listPushConfigsRequest(_ at, r *pb.ListTaskPushNotificationConfigsRequest) *a2a.ListTaskPushNotificationConfigsRequest {
	return &a2a.ListTaskPushNotificationConfigsRequest{
		Tenant: r.GetTenant(), TaskID: r.GetTaskId(), PageSize: r.GetPageSize(), PageToken: r.GetPageToken(),
	}
}

func (e *encoder) listPushConfigsResponse(r *a2a.ListTaskPushNotificationConfigsResponse) *pb.ListTaskPushNotificationConfigsResponse {
	return &pb.ListTaskPushNotificationConfigsResponse{
		Configs: each(r.Configs, e.pushConfig), NextPageToken: r.NextPageToken,
	}
}

func (d *decoder) listPushConfigsResponse(p at, r *pb.ListTaskPushNotificationConfigsResponse) *a2a.ListTaskPushNotificationConfigsResponse {
	return &a2a.ListTaskPushNotificationConfigsResponse{
		Configs: each(r.GetConfigs(), func(c *pb.TaskPushNotificationConfig) *a2a.TaskPushNotificationConfig {
			return d.pushConfig(p, c)
		}),
		NextPageToken: r.GetNextPageToken(),
	}
}

func (e *encoder) getCardRequest(r *a2a.GetExtendedAgentCardRequest) *pb.GetExtendedAgentCardRequest {
	return &pb.GetExtendedAgentCardRequest{Tenant: r.Tenant}
}

func (d *decoder) getCardRequest(_ at, r *pb.GetExtendedAgentCardRequest) *a2a.GetExtendedAgentCardRequest {
	return &a2a.GetExtendedAgentCardRequest{Tenant: r.GetTenant()}
}
