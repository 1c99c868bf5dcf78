package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

var (
	skuCode       = regexp.MustCompile(`\b[A-Z]{3}-\d{4,6}\b`)
	warehouseCode = regexp.MustCompile(`\b[A-Z]{3}-\d{2}\b`)
	reserveWords  = regexp.MustCompile(`(?i)\breserve\b(?:\s+(\d{1,6})\b)?`)
)

func isSKU(s string) bool       { return skuCode.FindString(s) == s && s != "" }
func isWarehouse(s string) bool { return warehouseCode.FindString(s) == s && s != "" }

// order is what a partner wants, as far as it is known.
type order struct {
	sku, warehouse string
	reserve        bool
	quantity       int
	fault          string // in the last message
}

// orderOf reads all that the caller has said in a task, so that a second message that only says SBY-01 goes with the SKU
// of the first. What is said last counts.
func orderOf(task *a2a.Task) order {
	var o order
	for _, m := range task.History {
		if m.Role == a2a.RoleUser {
			o.read(m)
		}
	}
	return o
}

// skillOf is the skill that a message is for. An answer to a question for an approval goes with what it approves.
func skillOf(m *a2a.Message) string {
	if answer, err := extension.ApprovalAnswerIn(m); answer != nil || err != nil {
		return reservation.ID
	}
	var o order
	o.read(m)
	return o.skill()
}

func (o *order) skill() string {
	if o.reserve {
		return reservation.ID
	}
	return availability.ID
}

// read takes a message in: its text, and its data parts.
func (o *order) read(m *a2a.Message) {
	o.fault = ""
	text := m.Text()
	skus, codes := skuCode.FindAllString(text, -1), warehouseCode.FindAllString(text, -1)
	for _, words := range reserveWords.FindAllStringSubmatch(text, -1) {
		o.reserve = true
		o.quantity, _ = strconv.Atoi(words[1]) // without a number it is asked for
	}
	for _, p := range m.Parts {
		data, ok := p.Content.(a2a.Data)
		if _, approval := p.Metadata[extension.ApprovalKey]; !ok || approval {
			continue
		}
		d, fault := readData(data)
		if fault != "" {
			o.fault = fault
		}
		if d.sku != "" {
			skus = append(skus, d.sku)
		}
		if d.warehouse != "" {
			codes = append(codes, d.warehouse)
		}
		if d.reserve {
			o.reserve, o.quantity = true, d.quantity
		}
	}
	o.sku, o.warehouse = o.one(o.sku, skus), o.one(o.warehouse, codes)
}

// one returns what a message names, old if it names nothing.
func (o *order) one(old string, named []string) string {
	slices.Sort(named)
	switch named = slices.Compact(named); len(named) {
	case 0:
		return old
	case 1:
		return named[0]
	}
	o.fault = "One SKU and one warehouse at a time."
	return ""
}

// readData reads an order that is written as JSON, and says what is wrong with it. Its names count as they are written,
// and others are not passed over: who writes one means something by it.
func readData(data a2a.Data) (o order, fault string) {
	var members a2a.Struct
	if json.Unmarshal(data, &members) != nil || members == nil {
		return o, "A data part is a JSON object."
	}
	_, o.reserve = members["reserve"]
	for name := range members {
		ok := false
		switch name {
		case "sku":
			ok = members.Get(name, &o.sku) && isSKU(o.sku)
		case "warehouse":
			ok = members.Get(name, &o.warehouse) && isWarehouse(o.warehouse)
		case "reserve":
			ok = members.Get(name, &o.quantity) && o.quantity > 0 && o.quantity < 1_000_000
		}
		if !ok {
			return order{reserve: o.reserve}, "A data part has sku, warehouse and reserve (1 to 999999), and nothing else."
		}
	}
	return o, ""
}

// question asks for what is missing; empty: nothing is.
func (o *order) question() string {
	var missing []string
	if o.sku == "" {
		missing = append(missing, "the SKU (such as BRG-10422)")
	}
	if o.warehouse == "" {
		missing = append(missing, "the warehouse (such as SBY-01)")
	}
	if o.reserve && o.quantity == 0 {
		missing = append(missing, "how many to reserve")
	}
	switch {
	case len(missing) > 0:
		return strings.TrimSpace(o.fault + " Please send " + strings.Join(missing, " and ") + ".")
	case o.fault != "":
		return o.fault
	}
	return ""
}

// String is what an approval is for.
func (o order) String() string { return fmt.Sprintf("%d of %s in %s", o.quantity, o.sku, o.warehouse) }
