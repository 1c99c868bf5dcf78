package main

import (
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		part     *a2a.Part
		want     order // without its fault
		question bool
	}{
		{part: a2a.TextPart("Is BRG-10422 in SBY-01?"), want: order{sku: "BRG-10422", warehouse: "SBY-01"}},
		{part: a2a.TextPart("reserve 7 BRG-10422, SBY-01"), want: order{"BRG-10422", "SBY-01", true, 7, ""}},
		{part: a2a.TextPart("reserve -7 BRG-10422, SBY-01"), want: order{"BRG-10422", "SBY-01", true, 0, ""}, question: true},
		{part: a2a.TextPart("reserve 7000000 BRG-10422, SBY-01"), want: order{"BRG-10422", "SBY-01", true, 0, ""}, question: true},
		{part: a2a.TextPart("BRG-10422x in SBY-012, ABRG-10422"), question: true},
		{part: a2a.TextPart("brg-10422 in sby-01"), question: true},
		{part: a2a.TextPart("SBY-01 or JKT-02: BRG-10422"), want: order{sku: "BRG-10422"}, question: true},
		{part: data(`{"sku":"BRG-10422","warehouse":"SBY-01","reserve":7}`), want: order{"BRG-10422", "SBY-01", true, 7, ""}},
		{part: data(`{"SKU":"BRG-10422","warehouse":"SBY-01"}`), question: true},
		{part: data(`{"sku":"BRG-10422","warehouse":"SBY-01\n"}`), question: true},
		{part: data(`{"sku":"BRG-10422","warehouse":"SBY-01' OR 1"}`), question: true},
		{part: data(`{"sku":["BRG-10422"],"warehouse":"SBY-01"}`), question: true},
		{part: data(`{"sku":"BRG-10422","warehouse":"SBY-01","reserve":0}`), want: order{reserve: true}, question: true},
		{part: data(`{"sku":"BRG-10422","warehouse":"SBY-01","reserve":1.5}`), want: order{reserve: true}, question: true},
		{part: data(`{"sku":"BRG-10422","warehouse":"SBY-01","reserve":"7"}`), want: order{reserve: true}, question: true},
		{part: data(`["BRG-10422"]`), question: true},
		{part: data(`null`), question: true},
	} {
		var o order
		o.read(&a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{c.part}})
		asked := o.question() != ""
		o.fault = ""
		if o != c.want || asked != c.question {
			t.Errorf("%v: %+v, asked %v; want %+v, %v", c.part.Content, o, asked, c.want, c.question)
		}
	}
}

func data(s string) *a2a.Part { return &a2a.Part{Content: a2a.Data(s)} }

// FuzzOrder: whatever is said, what goes to the inventory and into an approval are codes.
func FuzzOrder(f *testing.F) {
	f.Add("Reserve 20 of BRG-10422 in SBY-01", `{"sku":"BRG-10422","warehouse":"SBY-01","reserve":20}`)
	f.Add("", `{"sku":"BRG-10422\n","reserve":-1}`)
	f.Fuzz(func(t *testing.T, said, written string) {
		m := &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(said), data(written)}}
		o := orderOf(&a2a.Task{History: []*a2a.Message{m, m}})
		if o.question() == "" && (!isSKU(o.sku) || !isWarehouse(o.warehouse) || o.quantity < 0 || o.quantity > 999_999 || o.reserve && o.quantity == 0) {
			t.Errorf("%+v", o)
		}
		if skillOf(m) != o.skill() {
			t.Errorf("the message is for %s, the task for %s", skillOf(m), o.skill())
		}
	})
}
