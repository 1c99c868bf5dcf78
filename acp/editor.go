package acp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
)

// Remote is an A2A agent, as a client.Client calls it.
type Remote interface {
	a2a.Service
	// Send sends a message and yields what comes of it, until the task ends or waits for its caller.
	Send(context.Context, *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error]
}

// ServeOptions say how [Serve] shows an agent.
type ServeOptions struct {
	Card *a2a.AgentCard // of the agent
	Log  *slog.Logger   // default: nothing is logged
}

// hangUp is how long the tasks of an editor that is gone have to be canceled.
const hangUp = 5 * time.Second

// Serve is an ACP agent that is the A2A agent: it reads requests of an editor from in and writes to out, until in ends
// or ctx does. Then the tasks of prompts at work are canceled, for which there are 5 s. A session is a context of the agent,
// and a prompt a task, or the answer to a task that asked. Calls are made with the CallInfo in ctx, each with a copy.
func Serve(ctx context.Context, remote Remote, in io.Reader, out io.Writer, opts ServeOptions) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // which goes on until the tasks are canceled
	defer cancel()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Card == nil {
		opts.Card = &a2a.AgentCard{Name: "A2A agent"}
	}
	e := &editor{ctx: own, remote: remote, card: opts.Card, sessions: map[string]*editorSession{}}
	e.c = newConn(in, out, opts.Log)
	e.c.broken = func(id json.RawMessage, why *rpcError) { e.answer(&message{ID: id}, nil, why) }
	go e.c.run(e.handle)
	select {
	case <-e.c.done:
	case <-ctx.Done():
	}
	e.end(cancel)
	select {
	case <-e.c.done:
	default:
		return nil // nobody can end a read of in
	}
	if err := e.c.why(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// editor is the connection to an editor.
type editor struct {
	ctx    context.Context
	c      *conn
	remote Remote
	card   *a2a.AgentCard
	greets bool // it has sent initialize; for handle
	turns  sync.WaitGroup

	mu       sync.Mutex
	gone     bool
	sessions map[string]*editorSession
}

// end cancels what is at work for an editor that is gone, and waits for that.
func (e *editor) end(cancel context.CancelFunc) {
	e.mu.Lock()
	e.gone = true
	sessions := slices.Collect(maps.Values(e.sessions))
	e.mu.Unlock()
	for _, s := range sessions {
		e.turns.Go(func() { e.stop(s.id) })
	}
	late := time.AfterFunc(hangUp, cancel)
	e.turns.Wait()
	if !late.Stop() {
		e.c.log.Warn("tasks of the editor could not be canceled in time: they may go on", "waited", hangUp)
	}
	cancel()
}

// editorSession is a session of the editor: a context of the agent.
type editorSession struct {
	id string

	mu      sync.Mutex
	context string
	open    string // the task that waits for the next prompt
	working string // the task of the prompt at work
	busy    bool
	cancel  context.CancelFunc // of the prompt at work
	stopped bool               // the editor has canceled it
}

// call is the context of one call. Where the agent tells its thoughts, they are asked for: editors show them.
func (e *editor) call(ctx context.Context) context.Context {
	one := new(a2a.CallInfo)
	if info := a2a.CallInfoFrom(e.ctx); info != nil {
		*one = *info
		one.Header, one.Activated = info.Header.Clone(), nil
	}
	tells := func(x *a2a.AgentExtension) bool { return x.URI == ThoughtsExtension }
	if slices.ContainsFunc(e.card.Capabilities.Extensions, tells) && !slices.Contains(one.Extensions, ThoughtsExtension) {
		one.Extensions = append(slices.Clip(one.Extensions), ThoughtsExtension)
	}
	return a2a.WithCallInfo(ctx, one)
}

// handle answers a request of the editor. What takes time has a goroutine of its own, so that a cancel is heard.
func (e *editor) handle(m *message) {
	if e.greets = e.greets || m.Method == methodInitialize; !e.greets {
		e.answer(m, nil, &rpcError{Code: codeInvalidRequest, Message: m.Method + " came before initialize"})
		return
	}
	switch m.Method {
	case methodInitialize:
		e.answer(m, e.initialized(), nil)
	case "authenticate":
		e.answer(m, struct{}{}, nil)
	case methodNew:
		s := &editorSession{id: uuid.NewString()}
		s.context = s.id
		e.mu.Lock()
		e.sessions[s.id] = s
		e.mu.Unlock()
		e.answer(m, sessionResult{SessionID: s.id}, nil)
	case methodLoad:
		e.turns.Go(func() { e.answer(m, struct{}{}, e.load(m)) })
	case methodPrompt:
		var p promptParams
		if err := json.Unmarshal(m.Params, &p); err != nil {
			e.answer(m, nil, &rpcError{Code: codeInvalidParams, Message: "the prompt cannot be read"})
			return
		}
		s, ctx, err := e.take(p.SessionID)
		if err != nil {
			e.answer(m, nil, err)
			return
		}
		e.turns.Go(func() {
			stop, err := e.prompt(ctx, s, p.Prompt)
			if task := s.at(); task != "" && errors.Is(err, errClosed) { // nobody reads what comes of it
				e.cancelTask(task)
			}
			s.leave()
			e.answer(m, promptResult{StopReason: stop}, err)
		})
	case methodCancel:
		var p struct {
			SessionID string `json:"sessionId"`
		}
		if err := json.Unmarshal(m.Params, &p); err == nil {
			e.turns.Go(func() { e.stop(p.SessionID) })
		}
	default:
		if m.ID != nil {
			e.answer(m, nil, &rpcError{Code: codeMethodNotFound, Message: "there is no method " + m.Method})
		}
	}
}

// answer answers a request, by its error if there is one.
func (e *editor) answer(m *message, result any, err error) {
	if m.ID == nil {
		return
	}
	var rpc *rpcError
	var said *a2a.Error
	switch {
	case err == nil:
		err = e.c.reply(e.ctx, m.ID, result)
	case errors.As(err, &rpc):
		err = e.c.send(e.ctx, map[string]any{"id": m.ID, "error": rpc})
	case errors.As(err, &said) && (said.Code == a2a.ErrContentTypeNotSupported || said.Code == a2a.ErrInvalidParams):
		err = e.c.refuse(e.ctx, m.ID, codeInvalidParams, said.Error())
	default:
		err = e.c.refuse(e.ctx, m.ID, codeInternal, err.Error())
	}
	if err != nil {
		e.c.log.Debug("an answer could not be sent", "err", err)
	}
}

func (e *editor) initialized() initialized {
	takes := func(kind string) bool {
		return slices.ContainsFunc(e.card.DefaultInputModes, func(mode string) bool {
			return mode == "*/*" || strings.HasPrefix(mode, kind)
		})
	}
	return initialized{
		ProtocolVersion: protocolVersion,
		Capabilities: agentCapabilities{
			LoadSession: true,
			Prompt:      promptCapabilities{Image: takes("image/"), Audio: takes("audio/"), EmbeddedContext: true},
		},
		AuthMethods: []authMethod{},
		Agent:       &implementation{Name: e.card.Name, Title: e.card.Name, Version: cmp.Or(e.card.Version, "0")},
	}
}

// take begins a prompt of a session, of which there is one at a time.
func (e *editor) take(id string) (*editorSession, context.Context, error) {
	e.mu.Lock()
	s, gone := e.sessions[id], e.gone
	e.mu.Unlock()
	if gone {
		return nil, nil, errClosed
	}
	if s == nil {
		return nil, nil, &rpcError{Code: codeNotFound, Message: "there is no session " + id}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return nil, nil, &rpcError{Code: codeInvalidParams, Message: "the session is at work on a prompt: cancel it, or wait"}
	}
	ctx, cancel := context.WithCancel(e.ctx)
	s.busy, s.stopped, s.working, s.cancel = true, false, s.open, cancel
	return s, ctx, nil
}

func (s *editorSession) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.busy, s.working = false, ""
}

// stop cancels the task of the prompt at work. Where the agent does not, the prompt ends anyway.
func (e *editor) stop(id string) {
	e.mu.Lock()
	s := e.sessions[id]
	e.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	busy, task, cancel := s.busy, s.working, s.cancel
	s.stopped = s.stopped || busy
	s.mu.Unlock()
	if !busy || task == "" { // where the task is not known yet, its first event cancels it
		return
	}
	e.cancelTask(task)
	cancel()
}

func (e *editor) cancelTask(task string) {
	e.mu.Lock()
	gone := e.gone
	e.mu.Unlock()
	_, err := e.remote.CancelTask(e.call(e.ctx), &a2a.CancelTaskRequest{ID: task})
	switch {
	case errors.Is(err, a2a.ErrTaskNotCancelable):
		e.c.log.Debug("the task had ended before it was canceled", "task", task)
	case err != nil:
		e.c.log.Warn("the task could not be canceled and may go on", "task", task, "err", err)
	case gone:
		e.c.log.Warn("the editor is gone: the task at work for it was canceled", "task", task)
	}
}

// at returns the task of the prompt at work.
func (s *editorSession) at() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working
}

func (s *editorSession) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// prompt sends a prompt and shows what comes of it, with the decisions that are asked for on the way.
func (e *editor) prompt(ctx context.Context, s *editorSession, blocks []block) (string, error) {
	m := &a2a.Message{Role: a2a.RoleUser}
	for i := range blocks {
		if p := blocks[i].part(); p != nil {
			m.Parts = append(m.Parts, p)
		}
	}
	if len(m.Parts) == 0 {
		return "", &rpcError{Code: codeInvalidParams, Message: "the prompt has nothing that can be sent"}
	}
	v := &view{e: e, s: s}
	for {
		s.mu.Lock()
		m.MessageID, m.ContextID, m.TaskID = uuid.NewString(), s.context, s.open
		s.mu.Unlock()
		state, status, err := v.follow(ctx, &a2a.SendMessageRequest{Message: m, Configuration: &a2a.SendMessageConfiguration{}})
		if s.isStopped() {
			s.setOpen("")
			return stopCancelled, nil
		}
		if err != nil {
			return "", err
		}
		reason, done, err := v.ended(state, status)
		if done {
			return reason, err
		}
		answer, err := e.ask(ctx, s, status)
		if s.isStopped() || err == nil && answer == "" {
			s.mu.Lock()
			task := s.open
			s.open = ""
			s.mu.Unlock()
			if task != "" {
				e.cancelTask(task)
			}
			return stopCancelled, nil
		}
		if err != nil {
			return "", err
		}
		m = &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(answer)}}
	}
}

func (s *editorSession) setOpen(task string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = task
}

// ask has the editor choose one of the options, and returns the id of the one, "" where the prompt was canceled.
func (e *editor) ask(ctx context.Context, s *editorSession, status *a2a.Message) (string, error) {
	q := optionsOf(status)
	call := q.Tool
	if len(call) == 0 {
		call = tool{}
	}
	if call.text("toolCallId") == "" {
		call = tool(a2a.Struct(call).With("toolCallId", cmp.Or(q.RequestID, status.MessageID)).With("title", status.Text()))
	}
	raw, err := json.Marshal(call)
	if err != nil {
		return "", err
	}
	var result permissionResult
	err = e.c.call(ctx, methodPermission, permissionParams{s.id, raw, q.Options}, &result)
	if err != nil || result.Outcome.Outcome != "selected" {
		return "", err
	}
	id := result.Outcome.OptionID
	if !slices.ContainsFunc(q.Options, func(o option) bool { return o.OptionID == id }) { // the agent would ask again, without end
		return "", &rpcError{Code: codeInvalidParams, Message: fmt.Sprintf(
			"the editor chose the option %q, which was not offered: the agent waits, and the next prompt answers it", clip(id, 100))}
	}
	return id, nil
}

// options are the data of a question that offers a choice.
type options struct {
	RequestID string   `json:"requestId"`
	Tool      tool     `json:"tool"`
	Options   []option `json:"options"`
}

func optionsOf(m *a2a.Message) (q options) {
	if m == nil {
		return q
	}
	for _, p := range m.Parts {
		if d, ok := p.Content.(a2a.Data); ok && json.Unmarshal(d, &q) == nil && len(q.Options) > 0 {
			return q
		}
	}
	return options{}
}

// load tells the editor what was said in the tasks of a context.
func (e *editor) load(m *message) error {
	var p sessionParams
	if err := json.Unmarshal(m.Params, &p); err != nil || p.SessionID == "" {
		return &rpcError{Code: codeInvalidParams, Message: "which session?"}
	}
	s := &editorSession{id: p.SessionID, context: p.SessionID}
	var tasks []*a2a.Task
	yes := true
	for token := ""; ; {
		page, err := e.remote.ListTasks(e.call(e.ctx), &a2a.ListTasksRequest{ContextID: s.context, PageToken: token, IncludeArtifacts: &yes})
		if err != nil {
			return err
		}
		tasks = append(tasks, page.Tasks...)
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if len(tasks) == 0 {
		return &rpcError{Code: codeNotFound, Message: "there is no session " + p.SessionID}
	}
	slices.Reverse(tasks) // the newest came first
	for _, t := range tasks {
		v := &view{e: e, s: s}
		for _, h := range t.History {
			kind := "agent_message_chunk"
			if h.Role == a2a.RoleUser {
				kind = "user_message_chunk"
			}
			if err := v.blocks(e.ctx, kind, h.Parts); err != nil {
				return err
			}
		}
		for _, a := range t.Artifacts {
			if err := v.artifact(e.ctx, a); err != nil {
				return err
			}
		}
		if t.Status.State.Interrupted() {
			s.open = t.ID
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sessions[s.id] = s
	return nil
}

// view shows a task to the editor.
type view struct {
	e     *editor
	s     *editorSession
	tools map[string]bool
	task  *a2a.Task // as a Task was seen; nil before
}

// follow sends a message and shows what comes of it. It returns the state at the end with what explains it; the state is
// unspecified after a message that is the whole answer.
func (v *view) follow(ctx context.Context, req *a2a.SendMessageRequest) (a2a.TaskState, *a2a.Message, error) {
	var state a2a.TaskState
	var status *a2a.Message
	for entry, err := range v.e.remote.Send(v.e.call(ctx), req) {
		if err != nil {
			return 0, nil, err
		}
		switch ev := entry.Event.(type) {
		case *a2a.Message:
			return 0, nil, v.blocks(ctx, "agent_message_chunk", ev.Parts)
		case *a2a.Task:
			v.begun(ev.ID, ev.ContextID)
			state, status = ev.Status.State, ev.Status.Message
			err = v.whole(ctx, ev)
		case *a2a.TaskStatusUpdateEvent:
			v.begun(ev.TaskID, ev.ContextID)
			state, status = ev.Status.State, ev.Status.Message
			if state == a2a.TaskStateWorking || state == a2a.TaskStateSubmitted {
				err = v.progress(ctx, status)
			} else if state == a2a.TaskStateAuthRequired && status != nil {
				err = v.blocks(ctx, "agent_message_chunk", textOnly(status.Parts)) // the stream goes on
			}
		case *a2a.TaskArtifactUpdateEvent:
			v.begun(ev.TaskID, ev.ContextID)
			err = v.artifact(ctx, ev.Artifact)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return state, status, nil
}

// begun notes which task is at work. One that was canceled before that is canceled now.
func (v *view) begun(task, contextID string) {
	v.s.mu.Lock()
	first := v.s.working != task
	v.s.working, v.s.context = task, cmp.Or(contextID, v.s.context)
	late, cancel := first && v.s.stopped, v.s.cancel
	v.s.mu.Unlock()
	if late {
		v.e.cancelTask(task)
		cancel()
	}
}

// whole shows what of a task was not shown yet: all artifacts after a stream was lost, none of a task that goes on.
func (v *view) whole(ctx context.Context, t *a2a.Task) error {
	shown := v.task != nil || v.s.isOpen(t.ID)
	v.task = t
	if shown {
		return nil
	}
	for _, a := range t.Artifacts {
		if err := v.artifact(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (s *editorSession) isOpen(task string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == task
}

// ended says how a prompt ends whose task has ended or waits. It is not done where the editor is to choose.
func (v *view) ended(state a2a.TaskState, status *a2a.Message) (reason string, done bool, err error) {
	v.s.mu.Lock()
	v.s.open = ""
	if state.Interrupted() {
		v.s.open = v.s.working
	}
	v.s.mu.Unlock()
	var parts []*a2a.Part
	if status != nil {
		parts = textOnly(status.Parts)
	}
	switch state {
	case a2a.TaskStateInputRequired:
		if len(optionsOf(status).Options) > 0 {
			return "", false, nil
		}
		return stopEndTurn, true, v.blocks(v.e.ctx, "agent_message_chunk", parts)
	case a2a.TaskStateRejected:
		return stopRefusal, true, v.blocks(v.e.ctx, "agent_message_chunk", parts)
	case a2a.TaskStateFailed:
		return "", true, &rpcError{Code: codeInternal, Message: cmp.Or(status.Text(), "The task failed.")}
	case a2a.TaskStateCanceled:
		return stopCancelled, true, nil
	case a2a.TaskStateCompleted:
		return stopEndTurn, true, v.blocks(v.e.ctx, "agent_message_chunk", parts)
	case a2a.TaskStateUnspecified, a2a.TaskStateAuthRequired:
		return stopEndTurn, true, nil
	case a2a.TaskStateSubmitted, a2a.TaskStateWorking:
	}
	return "", true, errors.New("the agent's stream ended before the task did")
}

// textOnly leaves out the data of a status, which is for programs.
func textOnly(parts []*a2a.Part) []*a2a.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p *a2a.Part) bool {
		_, data := p.Content.(a2a.Data)
		return data
	})
}

// progress shows what the agent is at: a tool call as one, anything else as a thought.
func (v *view) progress(ctx context.Context, m *a2a.Message) error {
	if m == nil {
		return nil
	}
	for _, p := range m.Parts {
		d, ok := p.Content.(a2a.Data)
		var call tool
		if !ok || json.Unmarshal(d, &call) != nil || call.text("toolCallId") == "" {
			continue
		}
		id := call.text("toolCallId")
		kind := "tool_call"
		if v.tools[id] {
			kind = "tool_call_update"
		}
		if v.tools == nil {
			v.tools = map[string]bool{}
		}
		v.tools[id] = true
		return v.update(ctx, a2a.Struct(call).With("sessionUpdate", kind))
	}
	return v.blocks(ctx, "agent_thought_chunk", textOnly(m.Parts))
}

// artifact shows an artifact or a chunk of one.
func (v *view) artifact(ctx context.Context, a *a2a.Artifact) error {
	kind := "agent_message_chunk"
	switch a.ArtifactID {
	case "thoughts":
		kind = "agent_thought_chunk"
	case "plan":
		var plan struct {
			Entries json.RawMessage `json:"entries"`
		}
		if d, ok := a.Parts[0].Content.(a2a.Data); ok && json.Unmarshal(d, &plan) == nil && plan.Entries != nil {
			return v.update(ctx, map[string]any{"sessionUpdate": "plan", "entries": plan.Entries})
		}
	}
	return v.blocks(ctx, kind, a.Parts)
}

func (v *view) blocks(ctx context.Context, kind string, parts []*a2a.Part) error {
	for _, p := range parts {
		b := blockOf(p)
		if b.Type == "text" && b.Text == "" {
			continue
		}
		if err := v.update(ctx, map[string]any{"sessionUpdate": kind, "content": b}); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) update(ctx context.Context, update any) error {
	return v.e.c.notify(ctx, methodUpdate, map[string]any{"sessionId": v.s.id, "update": update})
}

// blockOf returns a part as a block that an editor can show.
func blockOf(p *a2a.Part) block {
	name := cmp.Or(p.Filename, "file")
	switch c := p.Content.(type) {
	case a2a.Text:
		if p.MediaType == "text/x-diff" {
			return block{Type: "text", Text: "\n```diff\n" + string(c) + "```\n"}
		}
		return block{Type: "text", Text: string(c)}
	case a2a.Data:
		return block{Type: "text", Text: "\n```json\n" + string(c) + "\n```\n"}
	case a2a.URL:
		return block{Type: "resource_link", URI: string(c), Name: cmp.Or(p.Filename, path.Base(string(c))), MimeType: p.MediaType}
	case a2a.Raw:
		data := base64.StdEncoding.EncodeToString(c)
		if kind, _, _ := strings.Cut(p.MediaType, "/"); kind == "image" || kind == "audio" {
			return block{Type: kind, Data: data, MimeType: p.MediaType}
		}
		return block{Type: "resource", Resource: &resource{URI: "a2a:" + name, MimeType: p.MediaType, Blob: data}}
	}
	return block{Type: "text"}
}
