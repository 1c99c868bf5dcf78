package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/auth"
)

var (
	availability = &a2a.AgentSkill{
		ID: "stock-availability", Name: "Stock availability",
		Description: "On-hand minus reserved quantity of one SKU in one warehouse.",
		Tags:        []string{"erp", "inventory", "stock"},
		Examples:    []string{"Is SKU BRG-10422 available in warehouse SBY-01?", `{"sku":"BRG-10422","warehouse":"SBY-01"}`},
	}
	reservation = &a2a.AgentSkill{
		ID: "stock-reservation", Name: "Stock reservation",
		Description: "Reserves a quantity of one SKU in one warehouse, once the caller has approved it.",
		Tags:        []string{"erp", "inventory", "stock"},
		Examples:    []string{"Reserve 20 of BRG-10422 in SBY-01", `{"sku":"BRG-10422","warehouse":"SBY-01","reserve":20}`},
	}
)

// warehousesClaim is the claim of a token with the codes of the warehouses that its partner may see.
const warehousesClaim = "warehouses"

// warehouses returns the codes of the warehouses that a caller may see. What is no warehouse's code is left out.
func warehouses(caller a2a.Caller) []string {
	var codes []string
	list, _ := caller.Claims[warehousesClaim].([]any)
	for _, v := range list {
		if code, ok := v.(string); ok && isWarehouse(code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// stockAgent answers from an inventory.
type stockAgent struct {
	goods    *inventory
	rules    auth.Rules
	audience string
}

// Restartable implements [agent.Restartable]: a task reserves once, however often its turn runs.
func (*stockAgent) Restartable() bool { return true }

// Handle implements [agent.Agent]. What the caller may do is looked at before the inventory is, in every turn, and what
// the partner may not see is refused in the same words as what is not there.
func (a *stockAgent) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	o := orderOf(r.Task)
	if err := a.rules.Skill(r.Caller, o.skill()); err != nil {
		return u.Reject(a2a.TextPart(a2a.AsError(err).Message))
	}
	if question := o.question(); question != "" {
		return u.Park(a2a.TextPart(question))
	}
	if !slices.Contains(warehouses(r.Caller), o.warehouse) {
		return u.Reject(a2a.TextPart("No access to a warehouse " + o.warehouse + "."))
	}
	if o.reserve {
		return a.reserve(ctx, r, u, o)
	}
	l, err := a.goods.level(ctx, r.Caller.Tenant, o.sku, o.warehouse)
	if err != nil {
		return refuse(u, o, err)
	}
	return u.Artifact(artifact("stock-level", l))
}

// reserve asks for an approval of exactly this order and then carries it out. What was approved for another order, such
// as one that the caller has changed since, counts for nothing: it is asked anew.
func (a *stockAgent) reserve(ctx context.Context, r *agent.Request, u *agent.Updater, o order) error {
	done, err := a.goods.reservation(ctx, r.Task.ID)
	if done != nil || err != nil { // an earlier run of this turn did it
		return a.reserved(u, o, done, err)
	}
	l, err := a.goods.level(ctx, r.Caller.Tenant, o.sku, o.warehouse)
	if err == nil && l.Available < o.quantity {
		err = errTooFew
	}
	if err != nil {
		return refuse(u, o, err)
	}
	answer := approval.Answered(r)
	switch {
	case answer == nil || answer.Request.Resource != o.String() || answer.Decision == approval.Undecided:
		return approval.Park(r, u, approval.Request{
			Resource: o.String(), Scopes: a.rules.Skills[reservation.ID], Audience: a.audience,
		})
	case answer.Decision != approval.Approved:
		return u.Reject(a2a.TextPart("Nothing is reserved: the approval was denied."))
	}
	if err := u.Committed(); err != nil {
		return err // a cancel came first
	}
	done, err = a.goods.reserve(ctx, r.Task.ID, r.Caller.Tenant, o)
	return a.reserved(u, o, done, err)
}

func (*stockAgent) reserved(u *agent.Updater, o order, done *reserved, err error) error {
	if err != nil {
		return refuse(u, o, err)
	}
	return u.Artifact(artifact("reservation", done))
}

// refuse ends the task by what the inventory said.
func refuse(u *agent.Updater, o order, err error) error {
	switch {
	case errors.Is(err, errNoItem):
		return u.Reject(a2a.TextPart(fmt.Sprintf("No item %s in %s.", o.sku, o.warehouse)))
	case errors.Is(err, errTooFew):
		return u.Reject(a2a.TextPart(fmt.Sprintf("Less than %s is available.", o)))
	}
	return err // the log has it
}

// artifact is an answer for programs. Its id is its name, so that a turn that runs again replaces it.
func artifact(name string, v any) a2a.Artifact {
	part := a2a.DataPart(v)
	part.MediaType = "application/json"
	return a2a.Artifact{ArtifactID: name, Name: name, Parts: []*a2a.Part{part}}
}
