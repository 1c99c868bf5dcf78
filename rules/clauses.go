package rules

import "github.com/parley-a2a/parley/a2a"

var (
	overRPC  = []string{a2a.BindingJSONRPC}
	overREST = []string{a2a.BindingREST}
	overGRPC = []string{a2a.BindingGRPC}
	overHTTP = []string{a2a.BindingJSONRPC, a2a.BindingREST}
)

// All are the clauses, in the order in which a report has them.
var All = []Clause{
	// The card.
	{"card-available", "8.2", Must, "The card is there, as JSON that can be read as a card.", "GET of the card's URL.", nil},
	{"card-required", "4.4.1", Must, "The card has every required field, with values that the specification allows.", "The card's JSON.", nil},
	{"card-advice", "4.4.1", Should, "The card follows the recommendations for its fields.", "The card's JSON.", nil},
	{"card-interfaces", "8.3.1", Must, "Every interface has its URL, binding and protocol version.", "The card's JSON.", nil},
	{"card-version", "3.6", Should, "Protocol versions have no patch number.", "The card's interfaces.", nil},
	{"card-signature-header", "8.4.2", Must, "A signature's protected header names its algorithm and its key.", "The card's signatures.", nil},
	{"card-signature", "8.4.1", Must, "A signature is over the card in its canonical form, without the signatures.", "The signature checked with the key set that it names, if that is at the card's origin.", nil},
	{"card-cache-control", "8.6.1", Should, "The card is served with Cache-Control: max-age.", "The card's HTTP headers.", nil},
	{"card-etag", "8.6.1", Should, "The card is served with an ETag.", "The card's HTTP headers.", nil},
	{"card-revalidates", "8.6", Should, "The card can be asked for by condition.", "GET with If-None-Match: 304.", nil},
	{"tls", "7.1", Must, "Beyond the own machine calls are encrypted.", "The interface's URL; not on loopback.", nil},
	{"tls-modern", "7.1", Should, "TLS is of a modern version, 1.3.", "The connection.", overHTTP},

	// What every message is made of.
	{"data-required", "5.7", Must, "Required fields are present and set, required arrays are not empty.", "Every result and frame.", nil},
	{"data-names", "5.5", Must, "Field names are camelCase.", "Every JSON result and frame.", overHTTP},
	{"data-enums", "5.5", Must, "Enum values are the names of the proto.", "Every result and frame.", nil},
	{"data-types", "5.5", Must, "Values have the type that ProtoJSON gives their field.", "Every JSON result and frame.", overHTTP},
	{"data-times", "5.6.1", Must, "Times are ISO 8601 in UTC, with a Z.", "Every JSON result and frame.", overHTTP},
	{"data-times-milliseconds", "5.6.1", Should, "Times have milliseconds.", "Every JSON result and frame with a time.", overHTTP},
	{"data-part", "4.1.6", Must, "A part has exactly one of text, raw, url and data.", "Every part in a result or frame.", nil},
	{"result-one", "3.1.1", Must, "The answer to a message, or a frame, is exactly one of its kinds.", "SendMessage, and every frame.", nil},

	// Errors.
	{"error-rpc-object", "9.5", Must, "An error has a numeric code, a message, and details that are objects with @type.", "Every JSON-RPC error.", overRPC},
	{"error-rpc-code", "5.4", Must, "An error's code is the one of its kind.", "JSON-RPC errors whose ErrorInfo names a kind.", overRPC},
	{"error-rpc-info", "9.5", Should, "An A2A error has an ErrorInfo with its reason and the protocol's domain.", "JSON-RPC errors from -32001 to -32009.", overRPC},
	{"error-rest-body", "11.6", Must, "An error is a google.rpc.Status under error: code, message, details with @type.", "Every REST error.", overREST},
	{"error-rest-status", "5.4", Must, "The HTTP status is the one of the error's kind, and the one in the body.", "REST errors.", overREST},
	{"error-rest-info", "11.6", Must, "An A2A error has an ErrorInfo with its reason and the protocol's domain.", "REST errors that the protocol names.", overREST},
	{"error-grpc-status", "5.4", Must, "The gRPC status is the one of the error's kind.", "gRPC errors whose ErrorInfo names a kind.", overGRPC},
	{"error-grpc-info", "10.6", Must, "An A2A error has an ErrorInfo with its reason and the protocol's domain.", "gRPC errors that the protocol names.", overGRPC},
	{"error-message", "3.3.2", Must, "An error says in words what is wrong.", "Every error.", nil},

	// The bindings.
	{"rpc-envelope", "9.3", Must, "A response says jsonrpc 2.0 and has exactly one of result and error.", "Every JSON-RPC response and frame.", overRPC},
	{"rpc-id", "9.3", Must, "A response has the request's id, with its type.", "Requests with ids of each type; every frame.", overRPC},
	{"rpc-media-type", "9.1", Must, "Responses are application/json.", "Every JSON-RPC response that is no stream.", overRPC},
	{"rpc-parse-error", "9.5", Must, "What is not JSON is answered by -32700 with a null id.", "A body that ends early.", overRPC},
	{"rpc-invalid-request", "9.5", Must, "JSON that is no request is answered by -32600.", "A request without a method.", overRPC},
	{"rpc-unknown-method", "9.5", Must, "A method that does not exist is answered by -32601.", "A call of one.", overRPC},
	{"rpc-invalid-params", "9.5", Must, "Parameters of a wrong shape are answered by -32602.", "GetTask with a list for params.", overRPC},
	{"rpc-notification", "9.3", Must, "A notification has no response.", "A call without an id.", overRPC},
	{"rest-json", "11.1", Must, "Responses are JSON, and say so.", "Every REST response that is no stream.", overREST},
	{"rest-media-type", "11.1", Should, "Responses are application/a2a+json.", "Every REST response to a caller that accepts it.", overREST},
	{"rest-bad-json", "11.6", Must, "A body that is not JSON is refused with 400.", "A body that ends early.", overREST},
	{"rest-query", "11.5", Must, "Query parameters are taken by their camelCase names.", "GetTask with historyLength, ListTasks with pageSize.", overREST},
	{"grpc-message", "10.1", Must, "Messages are those of the proto.", "Every gRPC message, with its unknown fields.", overGRPC},

	// Versions and extensions.
	{"version-works", "3.6.2", Must, "A request for 1.0 is processed as one.", "Every call that is made.", nil},
	{"version-unsupported", "3.6.2", Must, "A version that the interface has not is refused as VersionNotSupported.", "A call with version 99.0.", nil},
	{"version-empty", "3.6.2", Must, "No version means 0.3.", "A call without one, at an interface that the card declares for 1.0 only.", nil},
	{"version-patch", "3.6", Must, "The patch number of a version does not matter.", "A call with version 1.0.7.", nil},
	{"version-query", "3.6.1", Should, "The version is taken from the query too, where clients may put it.", "A call with the version there.", overHTTP},
	{"extension-required", "3.3.4", Must, "Without an extension that the card requires a message is refused as ExtensionSupportRequired.", "A message that declares none.", nil},
	{"extension-unknown", "4.6.3", Should, "An extension that the agent does not know is ignored.", "A call that asks for one.", nil},

	// Messages.
	{"send-blocking", "3.2.2", Must, "Unless it is told otherwise, SendMessage waits for the task's end or question.", "The state in the answer.", nil},
	{"send-immediate", "3.2.2", Must, "With returnImmediately, SendMessage does not wait.", "The state in the answer to a message that takes its time.", nil},
	{"send-terminal", "3.1.1", Must, "A message to a task that has ended is refused as UnsupportedOperation.", "A message to one.", nil},
	{"send-unknown-task", "3.4.2", Must, "A message to a task that does not exist is refused as TaskNotFound.", "A message with a made-up taskId.", nil},
	{"send-content-type", "3.1.1", Must, "A media type that is not supported is refused as ContentTypeNotSupported.", "A part of a type that the card does not list; an agent that takes it shows nothing.", nil},
	{"send-context-given", "3.4.1", Must, "A contextId that the agent made is in its answer.", "A message without one.", nil},
	{"send-context-kept", "3.4.1", Must, "A client's contextId is kept or refused, never replaced.", "A message with one.", nil},
	{"send-context-inferred", "3.4.3", Must, "A message with only a taskId belongs to that task's context.", "An answer to a question, without contextId.", nil},
	{"send-context-mismatch", "3.4.3", Must, "A contextId that is not the task's is refused.", "An answer to a question, with another contextId.", nil},
	{"send-task-ids", "3.4.2", Must, "Every new task has an id of its own.", "All tasks of the run.", nil},
	{"send-history-length", "3.2.4", Must, "historyLength bounds the history in the answer.", "Messages with historyLength 0 and 1.", nil},
	{"validate-required", "3.3.2", Must, "A message without a required field is refused.", "Messages without parts, messageId or role.", nil},
	{"validate-error", "3.3.2", Must, "Wrong input is refused as such: -32602, 400, INVALID_ARGUMENT.", "The errors for wrong input.", nil},
	{"validate-says-which", "3.3.2", Should, "The error says which field is wrong.", "The errors for wrong input.", nil},
	{"unknown-fields", "5.7", Should, "Fields that are not known are ignored.", "GetTask with one more field.", overHTTP},

	// Streams.
	{"stream-media-type", "9.4.2", Must, "A stream is text/event-stream.", "Every stream over HTTP.", overHTTP},
	{"stream-framing", "11.7", Must, "A stream is server-sent events whose data is JSON.", "Every frame over HTTP.", overHTTP},
	{"stream-first", "3.1.2", Must, "A stream begins with a Task, or is one Message.", "Every stream.", nil},
	{"stream-message-only", "3.1.2", Must, "A stream with a Message holds nothing else.", "Streams that begin with one.", nil},
	{"stream-lifecycle", "3.1.2", Must, "After the Task come updates of its status and artifacts.", "Every stream with a Task.", nil},
	{"stream-closes", "3.1.2", Must, "A stream closes when the task has ended.", "Streams to a terminal state.", nil},
	{"stream-nothing-after-end", "3.1.2", Must, "No update follows the terminal state.", "Streams to a terminal state.", nil},
	{"stream-one-task", "4.2.1", Must, "Updates carry the ids of the stream's task and context.", "Every update.", nil},
	{"stream-append", "4.2.2", Must, "What is appended belongs to an artifact that was sent before.", "Updates with append.", nil},
	{"stream-order", "3.5.2", Must, "Events come in the order in which they were made, and all of them.", "The stream folded, against GetTask.", nil},
	{"stream-broadcast", "3.5.2", Must, "Streams of one task get the same events in the same order.", "Two subscriptions while the task is canceled.", nil},
	{"stream-independent", "3.5.2", Must, "Closing a stream does not touch the task or its other streams.", "One of several subscriptions closed.", nil},
	{"stream-refused", "3.3.4", Must, "Without the streaming capability streams are refused as UnsupportedOperation.", "SendStreamingMessage and SubscribeToTask.", nil},

	// Tasks.
	{"get-task", "3.1.3", Must, "GetTask returns the task that was asked for, as it is.", "A task that has ended.", nil},
	{"get-unknown", "3.1.3", Must, "A task that does not exist is TaskNotFound.", "GetTask with a made-up id.", nil},
	{"history-length", "3.2.4", Must, "History has at most as many messages as were asked for.", "GetTask with historyLength 1.", nil},
	{"history-zero", "3.2.4", Should, "historyLength 0 leaves the history out.", "GetTask with historyLength 0.", nil},
	{"list-fields", "3.1.4", Must, "A page has tasks, nextPageToken, pageSize and totalSize, the last page an empty token.", "ListTasks; on gRPC an empty field cannot be told from none.", overHTTP},
	{"list-order", "3.1.4", Must, "Tasks come by the time of their status, the latest first.", "ListTasks.", nil},
	{"list-pages", "3.1.4", Must, "Pages follow each other by their token: no more tasks than asked for, none twice, none left out.", "ListTasks of the run's own context, by pages of one.", nil},
	{"list-context", "3.1.4", Must, "contextId keeps tasks of other contexts out.", "ListTasks of the run's own context.", nil},
	{"list-status", "3.1.4", Must, "status keeps tasks in other states out.", "ListTasks of completed tasks.", nil},
	{"list-artifacts", "3.1.4", Must, "Artifacts are left out, the field too, unless they are asked for.", "ListTasks of tasks with artifacts.", nil},
	{"list-artifacts-included", "3.1.4", Should, "Artifacts are there when they are asked for.", "ListTasks with includeArtifacts.", nil},
	{"list-history", "3.2.4", Must, "historyLength bounds the history of every task in a list.", "ListTasks with historyLength 1.", nil},
	{"list-page-size", "3.1.4", Must, "A page size beyond 1 to 100 is refused, or cut to it.", "ListTasks with pageSize 101 and 0.", nil},
	{"list-bad-token", "3.3.2", Must, "A page token that the agent did not make is refused.", "ListTasks with a made-up token.", nil},
	{"cancel-state", "3.1.5", Must, "CancelTask returns the task with its new state.", "CancelTask of a task that works or asks.", nil},
	{"cancel-terminal", "3.1.5", Must, "A task that has ended is TaskNotCancelable.", "CancelTask of a completed task.", nil},
	{"cancel-unknown", "3.1.5", Must, "A task that does not exist is TaskNotFound.", "CancelTask with a made-up id.", nil},
	{"cancel-idempotent", "3.3.1", Must, "Canceling twice is like canceling once.", "CancelTask again, then GetTask.", nil},
	{"subscribe-first", "3.1.6", Must, "A subscription begins with the Task as it is.", "SubscribeToTask of a task that has not ended.", nil},
	{"subscribe-closes", "3.1.6", Must, "A subscription ends when the task does.", "SubscribeToTask while the task is canceled.", nil},
	{"subscribe-terminal", "3.1.6", Must, "A task that has ended cannot be subscribed to: UnsupportedOperation.", "SubscribeToTask of a completed task.", nil},
	{"subscribe-unknown", "3.1.6", Must, "A task that does not exist is TaskNotFound.", "SubscribeToTask with a made-up id.", nil},

	// Webhooks.
	{"push-refused", "3.3.4", Must, "Without the capability the four operations are refused as PushNotificationNotSupported.", "All four.", nil},
	{"push-create", "3.1.7", Must, "A configuration that was made has an id and what was asked for.", "The answer to the creation.", nil},
	{"push-unknown-task", "3.1.7", Must, "A configuration for a task that does not exist is TaskNotFound.", "A creation with a made-up taskId.", nil},
	{"push-get", "3.1.8", Must, "A configuration can be read back, with its URL.", "GetTaskPushNotificationConfig.", nil},
	{"push-get-unknown", "3.1.8", Must, "A configuration that does not exist is TaskNotFound.", "GetTaskPushNotificationConfig with a made-up id.", nil},
	{"push-list", "3.1.9", Must, "All configurations of the task are listed.", "ListTaskPushNotificationConfigs.", nil},
	{"push-delete", "3.1.10", Must, "A deleted configuration is gone.", "Reading it after its deletion.", nil},
	{"push-delete-again", "3.1.10", Must, "Deleting twice is like deleting once.", "A second deletion.", nil},
	{"push-delivered", "4.3.3", Must, "Every webhook gets the task's updates.", "A receiver of the run's own, where the agent can reach it.", nil},
	{"push-credentials", "4.3.3", Must, "A webhook request carries the credentials of its configuration.", "Its Authorization header.", nil},
	{"push-payload", "4.3.3", Must, "A webhook request is one StreamResponse.", "Its body.", nil},

	// Who calls.
	{"extended-refused", "3.3.4", Must, "Without the capability the extended card is refused as UnsupportedOperation.", "GetExtendedAgentCard.", nil},
	{"extended-auth", "13.3", Must, "The extended card is for authenticated callers only.", "GetExtendedAgentCard without a credential.", nil},
	{"extended-card", "3.1.11", Must, "The extended card is a complete card, or the error says that none is configured.", "GetExtendedAgentCard with the credential.", nil},
	{"auth-required", "7.4", Must, "Where the card requires a credential, calls without one are refused.", "A call without one: 401 or 403, UNAUTHENTICATED or PERMISSION_DENIED.", nil},
	{"auth-wrong", "3.3.2", Must, "A credential that is none is refused.", "A call with a made-up one.", nil},
	{"auth-challenge", "7.4", Should, "A refusal for want of a credential says how to authenticate.", "WWW-Authenticate in the 401, or in the metadata on gRPC.", nil},
	{"scope-get", "13.1", Must, "A task of one caller cannot be read by another.", "GetTask with the second credential.", nil},
	{"scope-list", "13.1", Must, "Lists hold the caller's tasks only.", "ListTasks with the second credential.", nil},
	{"scope-cancel", "13.1", Must, "A task of one caller cannot be canceled by another.", "CancelTask with the second credential, of a task that has ended.", nil},
	{"scope-hidden", "3.3.2", Must, "The answer does not tell a foreign task from one that never was.", "Both answers side by side.", nil},
	{"auth-task", "7.6.1", Must, "An authorization is asked for by a task in TASK_STATE_AUTH_REQUIRED.", "A message that makes the agent ask for one.", nil},
	{"auth-task-message", "7.6.1", Must, "A task that asks for an authorization says which.", "The message in the status AUTH_REQUIRED.", nil},
	{"auth-task-follow-up", "7.6.1", Should, "A task that asks for an authorization takes messages.", "A message to it.", nil},
	{"auth-task-stream", "7.6.1", Should, "A stream stays open while an authorization is waited for.", "The stream of such a task.", nil},

	// All interfaces together.
	{"same-operations", "5.1", Must, "Every interface has the same operations.", "Operations that one interface has and another answers as unknown.", nil},
	{"same-results", "5.1", Must, "Every interface returns the same for the same request.", "One task read through each.", nil},
	{"same-errors", "5.1", Must, "Every interface maps the same error to the same kind.", "The errors of the run, by kind.", nil},
	{"same-auth", "5.1", Must, "Every interface asks for the same authentication.", "Calls without a credential.", nil},
}
