package cli

import (
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
	ext "github.com/parley-a2a/parley/extension"
)

// decisionFlags answer the question for an approval that a task waits on (docs/extensions/approval.md).
type decisionFlags struct {
	approve, deny string // the question's id
	scopes        []string
}

func (d *decisionFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&d.approve, "approve", "", "approve what the task asks for in the question `ID`, with --task-id")
	fs.StringSliceVar(&d.scopes, "approve-scope", nil, "only this `SCOPE` of it; repeatable (default: all)")
	fs.StringVar(&d.deny, "deny", "", "deny it (question `ID`)")
}

// add adds the answer to a message, if there is one.
func (d *decisionFlags) add(m *a2a.Message) error {
	switch {
	case d.approve == "" && d.deny == "" && len(d.scopes) == 0:
		return nil
	case d.approve != "" && d.deny != "":
		return usage("--approve and --deny contradict each other")
	case d.approve == "" && len(d.scopes) > 0:
		return usage("--approve-scope: give --approve too")
	case m.TaskID == "":
		return usage("--approve, --deny: which task asks? Give --task-id")
	}
	a := ext.ApprovalAnswer{ID: d.approve + d.deny, Approved: d.approve != "", Scopes: d.scopes}
	m.Parts = append(m.Parts, a.Part())
	m.Extensions = append(m.Extensions, ext.Approval)
	return nil
}
