package a2a

import "time"

// SendMessageRequest is the input of SendMessage and SendStreamingMessage (specification 3.2.1).
type SendMessageRequest struct {
	Tenant        string   // routing word of the selected interface
	Message       *Message // required
	Configuration *SendMessageConfiguration
	Metadata      Struct
}

// SendMessageResponse is what the wire wraps the answer to SendMessage in: exactly one of task and message.
type SendMessageResponse struct {
	Result SendMessageResult // required
}

// SendMessageConfiguration says how a client wants its answer (specification 3.2.2).
type SendMessageConfiguration struct {
	AcceptedOutputModes        []string // media types the client takes
	TaskPushNotificationConfig *TaskPushNotificationConfig
	HistoryLength              *int32 // nil: no limit; 0: none (specification 3.2.4)
	ReturnImmediately          bool   // do not wait for the task
}

// GetTaskRequest is the input of GetTask (specification 3.1.3).
type GetTaskRequest struct {
	Tenant        string
	ID            string // required
	HistoryLength *int32
}

// ListTasksRequest is the input of ListTasks (specification 3.1.4).
type ListTasksRequest struct {
	Tenant               string
	ContextID            string
	Status               TaskState // TaskStateUnspecified: any
	PageSize             *int32    // 1 to 100; nil: 50
	PageToken            string
	HistoryLength        *int32
	StatusTimestampAfter time.Time // at or after; zero: any
	IncludeArtifacts     *bool     // nil: false
}

// ListTasksResponse is a page of tasks, those with the newest status first. All four fields are always on
// the wire.
type ListTasksResponse struct {
	Tasks         []*Task // required
	NextPageToken string  // required; empty on the last page
	PageSize      int32   // required
	TotalSize     int32   // required; all that match, on whatever page
	// WithArtifacts says that the tasks carry their artifacts, so that a task without any is written with
	// an empty list; otherwise the field is left out (specification 3.1.4). It is not on the wire.
	WithArtifacts bool
}

// CancelTaskRequest is the input of CancelTask (specification 3.1.5).
type CancelTaskRequest struct {
	Tenant   string
	ID       string // required
	Metadata Struct
}

// SubscribeToTaskRequest is the input of SubscribeToTask (specification 3.1.6).
type SubscribeToTaskRequest struct {
	Tenant string
	ID     string // required
}

// TaskPushNotificationConfig registers a webhook for a task (specification 4.3.1).
type TaskPushNotificationConfig struct {
	Tenant         string
	ID             string // made by the server when empty
	TaskID         string // empty inside a SendMessageConfiguration
	URL            string // required
	Token          string
	Authentication *AuthenticationInfo
}

// AuthenticationInfo says how to authenticate at a webhook (specification 4.3.2).
type AuthenticationInfo struct {
	Scheme      string // required; such as Bearer
	Credentials string
}

// GetTaskPushNotificationConfigRequest is the input of GetTaskPushNotificationConfig (specification 3.1.8).
type GetTaskPushNotificationConfigRequest struct {
	Tenant string
	TaskID string // required
	ID     string // required
}

// DeleteTaskPushNotificationConfigRequest is the input of DeleteTaskPushNotificationConfig (specification 3.1.10).
type DeleteTaskPushNotificationConfigRequest struct {
	Tenant string
	TaskID string // required
	ID     string // required
}

// ListTaskPushNotificationConfigsRequest is the input of ListTaskPushNotificationConfigs (specification 3.1.9).
type ListTaskPushNotificationConfigsRequest struct {
	Tenant    string
	TaskID    string // required
	PageSize  int32
	PageToken string
}

// ListTaskPushNotificationConfigsResponse is a page of webhook configurations.
type ListTaskPushNotificationConfigsResponse struct {
	Configs       []*TaskPushNotificationConfig
	NextPageToken string
}

// GetExtendedAgentCardRequest is the input of GetExtendedAgentCard (specification 3.1.11).
type GetExtendedAgentCardRequest struct {
	Tenant string
}

// Empty is the answer of an operation that has none.
type Empty struct{}
