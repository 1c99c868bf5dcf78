package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/golden"
)

// wantState fails unless a task is in a state, with these words.
func wantState(t *testing.T, task *a2a.Task, state a2a.TaskState, words string) {
	t.Helper()
	if got := task.Status.Message.Text(); task.Status.State != state || !strings.Contains(got, words) {
		t.Errorf("the task is %v, %q; want %v, %q", task.Status.State, got, state, words)
	}
}

// wantData fails unless a task is complete, with this data.
func wantData(t *testing.T, task *a2a.Task, want string) {
	t.Helper()
	wantState(t, task, a2a.TaskStateCompleted, "")
	if len(task.Artifacts) != 1 {
		t.Fatalf("%d artifacts", len(task.Artifacts))
	}
	p := task.Artifacts[0].Parts[0]
	var got, like any
	data, _ := p.Content.(a2a.Data)
	if json.Unmarshal(data, &got) != nil || json.Unmarshal([]byte(want), &like) != nil || fmt.Sprint(got) != fmt.Sprint(like) ||
		p.MediaType != "application/json" {
		t.Errorf("%s %s, want %s", p.MediaType, data, want)
	}
}

// TestAvailability: an order in words or as data is answered with data; what is missing is asked for, and the answer goes
// with what was said before.
func TestAvailability(t *testing.T) {
	const level = `{"sku":"BRG-10422","warehouse":"SBY-01","onHand":340,"reserved":120,"available":220}`
	each(t, func(t *testing.T, h *host, conn golden.Conn) {
		acme := bearer(h.token(t, "acme"))
		wantData(t, send(t, conn, acme, text("Is BRG-10422 available in SBY-01?")), level)
		wantData(t, send(t, conn, acme, message(`{"data":{"sku":"BRG-10422","warehouse":"SBY-01"}}`)), level)

		task := send(t, conn, acme, text("Is BRG-10422 available?"))
		wantState(t, task, a2a.TaskStateInputRequired, "the warehouse")
		task = send(t, conn, acme, text("PMP-20071 and VLV-3300", member("taskId", task.ID)))
		wantState(t, task, a2a.TaskStateInputRequired, "One SKU and one warehouse at a time. Please send the SKU")
		task = send(t, conn, acme, message(`{"data":{"sku":"BRG-10422","size":4}}`, member("taskId", task.ID)))
		wantState(t, task, a2a.TaskStateInputRequired, "nothing else")
		task = send(t, conn, acme, text("BRG-10422", member("taskId", task.ID)))
		wantState(t, task, a2a.TaskStateInputRequired, "Please send the warehouse")
		wantData(t, send(t, conn, acme, text("SBY-01", member("taskId", task.ID))), level)

		got := answer(t, conn, "SendMessage", message(`{"raw":"AAAA","mediaType":"image/png"}`), acme)
		if !strings.Contains(got, "ContentTypeNotSupportedError") {
			t.Errorf("an image: %s", got)
		}
	})
}

// TestForeign: what a partner may not see is, to the byte, like what is not there: warehouses, goods, tasks and contexts.
func TestForeign(t *testing.T) {
	each(t, func(t *testing.T, h *host, conn golden.Conn) {
		acme, globex := bearer(h.token(t, "acme")), bearer(h.token(t, "globex"))
		nobody := bearer(h.changed(t, map[string]any{"warehouses": []any{7, "warehouse", "SBY-01\n", nil}}))
		wider := bearer(h.changed(t, map[string]any{"warehouses": nil, "scope": "stock.read SBY-01 warehouse:SBY-01 warehouse SBY-01"}))

		same := func(t *testing.T, what, op string, header http.Header, foreign, unknown string, words ...string) {
			t.Helper()
			request := func(w string) string {
				got := answer(t, conn, op, w, header)
				for i := 0; i < len(words); i += 2 {
					got = strings.ReplaceAll(got, words[i], words[i+1])
				}
				return golden.Mask(got)
			}
			if got, want := request(foreign), request(unknown); got != want || want == "" {
				t.Errorf("%s\ngot  %s\nwant %s", what, got, want)
			}
		}
		same(t, "a foreign warehouse", "SendMessage", acme, text("MTR-7750 in DPS-03"), text("MTR-7750 in XXX-99"), "DPS-03", "XXX-99")
		same(t, "streamed", "SendStreamingMessage", acme, text("MTR-7750 in DPS-03"), text("MTR-7750 in XXX-99"), "DPS-03", "XXX-99")
		same(t, "a claim that is no list of codes", "SendMessage", nobody, text("BRG-10422 in SBY-01"), text("BRG-10422 in XXX-99"), "SBY-01", "XXX-99")
		same(t, "scopes that look like warehouses", "SendMessage", wider, text("BRG-10422 in SBY-01"), text("BRG-10422 in XXX-99"), "SBY-01", "XXX-99")
		same(t, "consigned goods", "SendMessage", acme, text("VLV-3300 in JKT-02"), text("ZZZ-0000 in JKT-02"), "VLV-3300", "ZZZ-0000")
		same(t, "goods elsewhere", "SendMessage", acme, text("MTR-7750 in SBY-01"), text("ZZZ-0000 in SBY-01"), "MTR-7750", "ZZZ-0000")
		wantState(t, send(t, conn, acme, text("MTR-7750 in DPS-03")), a2a.TaskStateRejected, "No access to a warehouse DPS-03.")
		wantState(t, send(t, conn, acme, text("VLV-3300 in JKT-02")), a2a.TaskStateRejected, "No item VLV-3300 in JKT-02.")
		wantData(t, send(t, conn, globex, text("VLV-3300 in JKT-02")),
			`{"sku":"VLV-3300","warehouse":"JKT-02","onHand":60,"reserved":0,"available":60}`)

		never := uuid.NewString()
		for _, hers := range []*a2a.Task{send(t, conn, acme, text("BRG-10422?")), send(t, conn, acme, text("BRG-10422 in SBY-01"))} {
			for _, op := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
				same(t, op, op, globex, `{`+member("id", hers.ID)+`}`, `{`+member("id", never)+`}`, hers.ID, never)
			}
			for _, m := range []string{"taskId", "contextId"} {
				id := map[string]string{"taskId": hers.ID, "contextId": hers.ContextID}[m]
				same(t, m, "SendMessage", globex, text("SBY-01", member(m, id)), text("SBY-01", member(m, never)), id, never)
			}
			same(t, "a reference", "SendMessage", globex, text("SBY-01", `"referenceTaskIds":[`+quote(hers.ID)+`]`),
				text("SBY-01", `"referenceTaskIds":[`+quote(never)+`]`), hers.ID, never)
			if list := answer(t, conn, "ListTasks", `{}`, globex); strings.Contains(list, member("id", hers.ID)) || !strings.Contains(list, `"tasks":[{`) {
				t.Errorf("globex lists acme's task %s, or nothing", hers.ID)
			}
			if got := answer(t, conn, "GetTask", `{`+member("id", hers.ID)+`}`, acme); !strings.Contains(got, hers.ID) {
				t.Errorf("acme's task: %s", got)
			}
		}
		// The same subject of another partner is somebody else.
		hers := send(t, conn, acme, text("BRG-10422?"))
		other := bearer(h.changed(t, map[string]any{"partner": "initech"}))
		same(t, "another partner's namesake", "GetTask", other, `{`+member("id", hers.ID)+`}`, `{`+member("id", never)+`}`, hers.ID, never)
	})
}

// approve returns the request that answers a task's question, with what else the message says.
func approve(t *testing.T, task *a2a.Task, more ...*a2a.Part) string {
	t.Helper()
	req, err := approval.Approve(task)
	if err != nil {
		t.Fatal(err)
	}
	req.Message.Parts = append(req.Message.Parts, more...)
	return string(req.AppendJSON(nil))
}

// available returns what acme can have of a SKU in SBY-01.
func available(t *testing.T, h *host, conn golden.Conn, sku string) (n int) {
	t.Helper()
	task := send(t, conn, bearer(h.token(t, "acme")), text(sku+" in SBY-01"))
	var l level
	data, _ := task.Artifacts[0].Parts[0].Content.(a2a.Data)
	if err := json.Unmarshal(data, &l); err != nil {
		t.Fatal(err)
	}
	return l.Available
}

// TestReservation: stock changes once for an approval of exactly that, and for nothing else.
func TestReservation(t *testing.T) {
	each(t, func(t *testing.T, h *host, conn golden.Conn) {
		acme := approving(h.token(t, "acme"))
		before := available(t, h, conn, "BRG-10422")
		same := func(what string) {
			t.Helper()
			if n := available(t, h, conn, "BRG-10422"); n != before {
				t.Errorf("%s: %d are available, %d before", what, n, before)
			}
		}
		const order = "Reserve 20 of BRG-10422 in SBY-01"

		task := send(t, conn, acme, text(order))
		wantState(t, task, a2a.TaskStateAuthRequired, "20 of BRG-10422 in SBY-01")
		if q := approval.Pending(task); q == nil || q.Resource != "20 of BRG-10422 in SBY-01" || !slices.Equal(q.Scopes, []string{"stock.reserve"}) {
			t.Fatalf("the question is %+v", q)
		}
		first := approve(t, task)
		task = send(t, conn, acme, text("Yes, approved!", member("taskId", task.ID)))
		wantState(t, task, a2a.TaskStateAuthRequired, "20 of") // words approve nothing
		if got := answer(t, conn, "SendMessage", first, acme); !strings.Contains(got, "InvalidParamsError") {
			t.Errorf("an answer to the question before: %s", got)
		}
		task = send(t, conn, acme, approve(t, task, a2a.TextPart("and reserve 99")))
		wantState(t, task, a2a.TaskStateAuthRequired, "99 of") // that was not approved
		same("nothing was approved")
		deny, err := approval.Deny(task)
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, send(t, conn, acme, string(deny.AppendJSON(nil))), a2a.TaskStateRejected, "denied")
		same("denied")

		task = send(t, conn, acme, message(`{"data":{"sku":"BRG-10422","warehouse":"SBY-01","reserve":20}}`))
		yes := approve(t, task)
		done := send(t, conn, acme, yes)
		wantData(t, done, `{"reservation":"`+task.ID+`","sku":"BRG-10422","warehouse":"SBY-01","quantity":20}`)
		before -= 20
		same("reserved")
		if got := answer(t, conn, "SendMessage", yes, acme); !strings.Contains(got, "UnsupportedOperationError") {
			t.Errorf("the answer once more: %s", got)
		}
		same("the answer once more")

		wantState(t, send(t, conn, acme, text("Reserve 9999 of BRG-10422 in SBY-01")), a2a.TaskStateRejected, "Less than 9999")
		wantState(t, send(t, conn, acme, text("Reserve BRG-10422 in SBY-01")), a2a.TaskStateInputRequired, "how many")
		wantState(t, send(t, conn, acme, text("Reserve 1 of MTR-7750 in DPS-03")), a2a.TaskStateRejected, "No access")
		wantState(t, send(t, conn, acme, text("Reserve 1 of VLV-3300 in JKT-02")), a2a.TaskStateRejected, "No item")
		wantState(t, send(t, conn, bearer(h.token(t, "acme")), text(order)), a2a.TaskStateFailed, extension.Approval)
		same("refused")
	})
}

// TestReservationScope: a token without the scope neither begins a reservation nor approves one, in whatever way it comes.
func TestReservationScope(t *testing.T) {
	each(t, func(t *testing.T, h *host, conn golden.Conn) {
		acme, reader := approving(h.token(t, "acme")), approving(h.changed(t, map[string]any{"scope": "stock.read"}))
		refused := func(what, request string) {
			t.Helper()
			got := answer(t, conn, "SendMessage", request, reader)
			if !strings.Contains(got, "PermissionDeniedError") || !strings.Contains(got, `scope="stock.reserve"`) {
				t.Errorf("%s: %s", what, got)
			}
		}
		refused("begun in words", text("please RESERVE 1 of BRG-10422 in SBY-01"))
		refused("begun as data", message(`{"data":{"reserve":1,"sku":"BRG-10422","warehouse":"SBY-01"}}`))
		task := send(t, conn, acme, text("Reserve 1 of BRG-10422 in SBY-01"))
		refused("approved", approve(t, task))
		// Of the same subject: a message that by itself only asks.
		wantState(t, send(t, conn, reader, text("What now?", member("taskId", task.ID))), a2a.TaskStateRejected, "needs the scope stock.reserve")

		got := answer(t, conn, "SendMessage", text("BRG-10422 in SBY-01"), bearer(h.changed(t, map[string]any{"scope": "stock.reserve"})))
		if !strings.Contains(got, "PermissionDeniedError") || !strings.Contains(got, "stock.read") {
			t.Errorf("without stock.read: %s", got)
		}
	})
}

// TestRestart: a question for an approval survives the loss of the host, and so does what was reserved.
func TestRestart(t *testing.T) {
	h := start(t)
	for _, b := range golden.Bindings {
		acme := approving(h.token(t, "acme"))
		conn := h.dial(t, b)
		before := available(t, h, conn, "BRG-10422")
		task := send(t, conn, acme, text("Reserve 5 of BRG-10422 in SBY-01"))
		h.Kill()
		h.Run(t)
		conn = h.dial(t, b)
		wantState(t, send(t, conn, acme, approve(t, task)), a2a.TaskStateCompleted, "")
		h.Kill()
		h.Run(t)
		if n := available(t, h, h.dial(t, b), "BRG-10422"); n != before-5 {
			t.Errorf("%s: %d are available, %d before 5 were reserved", b, n, before)
		}
	}
}

// TestCards: everybody reads a signed card of what all partners may do, and each partner one of its own.
func TestCards(t *testing.T) {
	each(t, func(t *testing.T, h *host, conn golden.Conn) {
		raw := get(t, http.DefaultClient, h.URL+a2a.CardPath)
		set := get(t, http.DefaultClient, h.URL+parley.KeySetPath)
		trust := agentcard.Policy{Origin: h.URL, Enrolled: map[string]agentcard.Enrollment{h.URL: {KeySet: set}}}
		if r := agentcard.Verify(t.Context(), raw, trust); !r.Trusted() {
			t.Errorf("the card's signature: %+v", r)
		}
		if findings := agentcard.Validate(raw); len(findings) > 0 {
			t.Errorf("the card: %v", findings)
		}
		var card a2a.AgentCard
		if err := json.Unmarshal(raw, &card); err != nil {
			t.Fatal(err)
		}
		if len(card.Skills) != 1 || strings.Contains(string(raw), "Your warehouses") || len(card.SecurityRequirements) != 1 ||
			card.SecuritySchemes["partnerBearer"] == nil || card.SupportedInterfaces[0].ProtocolBinding != a2a.BindingJSONRPC ||
			card.SupportedInterfaces[1].ProtocolBinding != a2a.BindingREST {
			t.Errorf("the public card: %s", raw)
		}
		odd := h.changed(t, map[string]any{"warehouses": []any{7, "SBY-01\n", "all of them", nil}})
		for token, want := range map[string]string{
			h.token(t, "acme"): "[stock-availability stock-reservation] SBY-01, JKT-02.", h.token(t, "globex"): "[stock-availability] JKT-02.",
			odd: "[stock-availability stock-reservation] none.",
		} {
			raw, err := golden.Call(t.Context(), conn, golden.Request{Op: "GetExtendedAgentCard", JSON: `{}`, Header: bearer(token)})
			if err != nil {
				t.Fatal(err)
			}
			var card a2a.AgentCard
			if err := json.Unmarshal(raw, &card); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, s := range card.Skills {
				ids = append(ids, s.ID)
			}
			_, own, _ := strings.Cut(card.Description, "Your warehouses: ")
			if got := fmt.Sprint(ids) + " " + own; got != want {
				t.Errorf("a partner's card: %s, want %s", got, want)
			}
			if r := agentcard.Verify(t.Context(), raw, trust); !r.Trusted() {
				t.Errorf("its signature: %+v", r)
			}
		}
		if got := answer(t, conn, "GetExtendedAgentCard", `{}`, nil); !strings.Contains(got, "UnauthenticatedError") {
			t.Errorf("without a token: %s", got)
		}
	})
}
