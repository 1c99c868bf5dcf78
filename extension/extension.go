// Package extension names what Parley adds to the protocol, on both ends. The extensions use only what A2A 1.0
// gives them (service parameters, metadata, the extension header), so that every binding carries them, and change
// nothing for a caller that did not activate them. Each has a page in docs/extensions.
package extension

import "github.com/parley-a2a/parley/a2a"

// URIs of the extensions, as cards declare and callers activate them.
const (
	// TaskLog gives tasks and events their generation, and with it resuming, long polls and preconditions.
	TaskLog = "https://github.com/parley-a2a/parley/extensions/task-log/v1"
	// SafeRetry makes a message that is sent again the same message.
	SafeRetry = "https://github.com/parley-a2a/parley/extensions/safe-retry/v1"
	// ChunkIntegrity gives artifacts digests, by which a reader sees that a chunk was lost or changed.
	ChunkIntegrity = "https://github.com/parley-a2a/parley/extensions/chunk-integrity/v1"
	// Approval makes a question for an authorization, and its answer, something that programs understand.
	Approval = "https://github.com/parley-a2a/parley/extensions/approval/v1"
	// Delegation says through which agents a message has come, and until when an answer is wanted.
	Delegation = "https://github.com/parley-a2a/parley/extensions/delegation/v1"
)

// GenerationKey is the name in the metadata of tasks and events under which task-log has their generation.
const GenerationKey = TaskLog + "/generation"

// Service parameters of task-log: HTTP headers, and gRPC metadata in lower case. Each holds a generation.
const (
	// LastEventID lets SubscribeToTask begin with the Task as of a generation, and go on from there.
	LastEventID = "Last-Event-ID"
	// CurrentGeneration lets GetTask wait until the task is past a generation.
	CurrentGeneration = "Task-Log-Current-Generation"
	// IfGenerationMatch lets a message in only while the task is at a generation.
	IfGenerationMatch = "Task-Log-If-Generation-Match"
)

// Generation returns the generation that task-log has put on a task or an event, 0 if there is none.
func Generation(ev a2a.Event) int64 {
	var n int64
	if m := metadata(ev); m == nil || !(*m).Get(GenerationKey, &n) || n < 0 {
		return 0
	}
	return n
}

// WithGeneration returns a copy of a task or an update with its generation on it. A Message has none and is
// returned as it is.
func WithGeneration(ev a2a.Event, generation int64) a2a.Event {
	var out a2a.Event
	switch ev := ev.(type) {
	case *a2a.Task:
		c := *ev
		out = &c
	case *a2a.TaskStatusUpdateEvent:
		c := *ev
		out = &c
	case *a2a.TaskArtifactUpdateEvent:
		c := *ev
		out = &c
	case *a2a.Message:
		return ev
	}
	m := metadata(out)
	*m = m.With(GenerationKey, generation)
	return out
}

func metadata(ev a2a.Event) *a2a.Struct {
	switch ev := ev.(type) {
	case *a2a.Task:
		return &ev.Metadata
	case *a2a.TaskStatusUpdateEvent:
		return &ev.Metadata
	case *a2a.TaskArtifactUpdateEvent:
		return &ev.Metadata
	case *a2a.Message:
	}
	return nil
}

var descriptions = map[string]string{
	ChunkIntegrity: "Digests on artifacts and their chunks",
	Approval:       "Questions for an authorization that name what it is for, and answers that name the question",
	Delegation:     "The agents that a message has come through, and a deadline",
}

// Declaration returns chunk-integrity, approval or delegation as a card lists it, for a host that is configured for it.
func Declaration(uri string) *a2a.AgentExtension {
	return &a2a.AgentExtension{URI: uri, Description: descriptions[uri]}
}

// Declare returns the extensions that every host has, as a card lists them.
func Declare() []*a2a.AgentExtension {
	return []*a2a.AgentExtension{
		{URI: TaskLog, Description: "Generations on tasks and events; resuming, long polls and preconditions by them"},
		{URI: SafeRetry, Description: "A message that is sent again with its messageId is taken once"},
	}
}
