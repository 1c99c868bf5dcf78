package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

func nodeVersion() string {
	out, err := exec.CommandContext(context.Background(), "node", "--version").Output()
	if err != nil {
		return "Node"
	}
	return "Node " + strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
}

// budget is what a workload may cost at most, a row of the table in the page.
type budget struct {
	workload string
	allocs   float64 // a request
	ratio    float64 // CPU by that of the floor
}

// allocSlack is how far allocations may vary without a change of the code: what pools lose to a collection.
const allocSlack = 1.01

// smoke compares what the workloads of the budget cost with what they may.
func smoke(ctx context.Context, o *options) error {
	text, err := os.ReadFile(o.page)
	if err != nil {
		return err
	}
	budgets, err := readBudgets(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	r, err := newRig(ctx, o.data)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	var wrong []error
	for _, b := range budgets {
		wrong = append(wrong, r.check(ctx, b))
	}
	return errors.Join(wrong...)
}

// check measures one workload. What fails or is over the budget is measured a second time: the machine may have been busy.
func (r *rig) check(ctx context.Context, b budget) error {
	w := find(b.workload)
	if w == nil {
		return fmt.Errorf("%s of the budget is no workload", b.workload)
	}
	count := load{args: strings.TrimSuffix(w.load.args, window), allocs: 2000}
	count.args = strings.Replace(count.args, "-n 64", "-n 4", 1) // more connections only add noise
	allocs := r.measure(ctx, memory, count)
	if allocs.Err != "" {
		return fmt.Errorf("%s: %s", b.workload, allocs.Err)
	}
	ratio, failed := 0.0, error(nil)
	for range 2 {
		quick := load{args: strings.Replace(w.load.args, "-dur 2s", "-dur 1s", 1)}
		theirs, ours := r.measure(ctx, floor, quick), r.measure(ctx, memory, quick)
		if failed = nil; theirs.Err != "" || ours.Err != "" {
			failed = fmt.Errorf("%s: %s%s", b.workload, theirs.Err, ours.Err)
			continue
		}
		if ratio = w.cpu(ours) / w.cpu(theirs); ratio <= b.ratio {
			break
		}
	}
	if failed != nil {
		return failed
	}
	log.Printf("%s: %.1f allocations a request (budget %g), %.2f × floor (budget %g)", b.workload, allocs.Allocs, b.allocs, ratio, b.ratio)
	var wrong error
	if allocs.Allocs > b.allocs*allocSlack {
		wrong = fmt.Errorf("%s allocates %.1f times a request, the budget is %g", b.workload, allocs.Allocs, b.allocs)
	}
	if ratio > b.ratio {
		wrong = errors.Join(wrong, fmt.Errorf("%s costs %.2f times the floor's CPU, the budget is %g", b.workload, ratio, b.ratio))
	}
	if wrong != nil {
		wrong = fmt.Errorf("%w: mend that, or raise the budget in docs/performance.md and say why in its row", wrong)
	}
	return wrong
}

func find(name string) *workload {
	for i := range workloads {
		if workloads[i].name == name {
			return &workloads[i]
		}
	}
	return nil
}

// readBudgets reads the table between the two comments: a workload, its allocations, its ratio, and why.
func readBudgets(page string) (out []budget, err error) {
	_, rest, ok := strings.Cut(page, "<!-- budget -->\n")
	table, _, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		return nil, errors.New("no table between <!-- budget --> and <!-- end -->")
	}
	for line := range strings.Lines(table) {
		f := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(f) < 4 || find(strings.TrimSpace(f[0])) == nil {
			continue
		}
		b := budget{workload: strings.TrimSpace(f[0])}
		var err1, err2 error
		b.allocs, err1 = strconv.ParseFloat(strings.TrimSpace(f[1]), 64)
		b.ratio, err2 = strconv.ParseFloat(strings.TrimSpace(f[2]), 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if strings.TrimSpace(f[3]) == "" {
			return nil, fmt.Errorf("the row of %s does not say why", b.workload)
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, errors.New("the budget has no rows")
	}
	return out, nil
}
