package a2a

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The plain types are what encoding/json would be given for the same wire, for comparison in the same run.
type (
	plainPart struct {
		Text      *string                    `json:"text,omitempty"`
		Raw       []byte                     `json:"raw,omitempty"`
		URL       *string                    `json:"url,omitempty"`
		Data      json.RawMessage            `json:"data,omitempty"`
		Metadata  map[string]json.RawMessage `json:"metadata,omitempty"`
		Filename  string                     `json:"filename,omitempty"`
		MediaType string                     `json:"mediaType,omitempty"`
	}
	plainMessage struct {
		MessageID        string                     `json:"messageId"`
		ContextID        string                     `json:"contextId,omitempty"`
		TaskID           string                     `json:"taskId,omitempty"`
		Role             string                     `json:"role"`
		Parts            []*plainPart               `json:"parts"`
		Metadata         map[string]json.RawMessage `json:"metadata,omitempty"`
		Extensions       []string                   `json:"extensions,omitempty"`
		ReferenceTaskIDs []string                   `json:"referenceTaskIds,omitempty"`
	}
	plainStatus struct {
		State     string        `json:"state"`
		Message   *plainMessage `json:"message,omitempty"`
		Timestamp *time.Time    `json:"timestamp,omitempty"`
	}
	plainArtifact struct {
		ArtifactID string                     `json:"artifactId"`
		Name       string                     `json:"name,omitempty"`
		Parts      []*plainPart               `json:"parts"`
		Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`
		Extensions []string                   `json:"extensions,omitempty"`
	}
	plainTask struct {
		ID        string                     `json:"id"`
		ContextID string                     `json:"contextId,omitempty"`
		Status    plainStatus                `json:"status"`
		Artifacts []*plainArtifact           `json:"artifacts,omitempty"`
		History   []*plainMessage            `json:"history,omitempty"`
		Metadata  map[string]json.RawMessage `json:"metadata,omitempty"`
	}
	plainConfiguration struct {
		AcceptedOutputModes []string `json:"acceptedOutputModes,omitempty"`
		HistoryLength       *int32   `json:"historyLength,omitempty"`
		ReturnImmediately   bool     `json:"returnImmediately,omitempty"`
	}
	plainRequest struct {
		Tenant        string                     `json:"tenant,omitempty"`
		Message       *plainMessage              `json:"message"`
		Configuration *plainConfiguration        `json:"configuration,omitempty"`
		Metadata      map[string]json.RawMessage `json:"metadata,omitempty"`
	}
)

const benchRequest = `{"message":{"messageId":"0f8fad5b-d9cb-469f-a165-70867728950e","contextId":"7c9e6679-7425-40de-944b-e07fc1f90ae7",` +
	`"role":"ROLE_USER","parts":[{"text":"Summarise the attached report in five sentences, please."},` +
	`{"data":{"n":1,"list":[1,2,3],"o":{"a":"b"}},"mediaType":"application/json"}],"metadata":{"trace":"abc"}},` +
	`"configuration":{"acceptedOutputModes":["text/plain","application/json"],"historyLength":10,"returnImmediately":true}}`

var benchTask = `{"id":"0f8fad5b-d9cb-469f-a165-70867728950e","contextId":"7c9e6679-7425-40de-944b-e07fc1f90ae7",` +
	`"status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-31T12:00:00.123Z"},` +
	`"artifacts":[{"artifactId":"a1","name":"summary","parts":[{"text":"` + strings.Repeat("The quick brown fox jumps over the dog.\\n", 50) + `"}]}],` +
	`"history":[{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"Summarise the attached report."}]},` +
	`{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"On it: größe, <tags> & 日本語."}]}],"metadata":{"trace":"abc"}}`

func BenchmarkAppendTask(b *testing.B) {
	b.Run("parley", func(b *testing.B) {
		var t Task
		if err := t.UnmarshalJSON([]byte(benchTask)); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(benchTask)))
		b.ReportAllocs()
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			buf = t.AppendJSON(buf[:0])
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		var t plainTask
		if err := json.Unmarshal([]byte(benchTask), &t); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(benchTask)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(&t); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUnmarshalTask(b *testing.B) {
	b.Run("parley", func(b *testing.B) { benchUnmarshal[Task](b, benchTask) })
	b.Run("encoding-json", func(b *testing.B) { benchPlain[plainTask](b, benchTask) })
}

func BenchmarkUnmarshalSendMessageRequest(b *testing.B) {
	b.Run("parley", func(b *testing.B) { benchUnmarshal[SendMessageRequest](b, benchRequest) })
	b.Run("encoding-json", func(b *testing.B) { benchPlain[plainRequest](b, benchRequest) })
}

func BenchmarkAppendSendMessageRequest(b *testing.B) {
	var q SendMessageRequest
	if err := q.UnmarshalJSON([]byte(benchRequest)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(benchRequest)))
	b.ReportAllocs()
	buf := make([]byte, 0, 4096)
	for b.Loop() {
		buf = q.AppendJSON(buf[:0])
	}
}

func benchUnmarshal[T any, P message[T]](b *testing.B, in string) {
	raw := []byte(in)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := unmarshal(raw, P(new(T))); err != nil {
			b.Fatal(err)
		}
	}
}

func benchPlain[T any](b *testing.B, in string) {
	raw := []byte(in)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := json.Unmarshal(raw, new(T)); err != nil {
			b.Fatal(err)
		}
	}
}
