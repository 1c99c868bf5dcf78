package conformance

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "embed"

	"github.com/parley-a2a/parley/rules"
)

// Outcome is what is known of a rule.
type Outcome string

// The outcomes of a rule on an interface.
const (
	NotMeasured Outcome = "" // the agent's behaviour did not show it
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
)

// MarshalText makes reports say what the empty outcome is.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// String returns pass, fail or not measured.
func (o Outcome) String() string {
	if o == NotMeasured {
		return "not measured"
	}
	return string(o)
}

// What a result is about, where it is not one interface.
const (
	CardName = "card"
	AllName  = "all interfaces"
)

// Interface is an interface of the card.
type Interface struct {
	Binding string `json:"binding"`
	URL     string `json:"url"`
	Name    string `json:"name,omitempty"` // as results have it; empty: it was left out
	Why     string `json:"why,omitempty"`  // it was left out
}

// Evidence is one place where a rule is broken: what was sent, what came back, and what should have.
type Evidence struct {
	Path     string `json:"path,omitempty"`
	Got      string `json:"got"`
	Want     string `json:"want"`
	Request  string `json:"request,omitempty"`
	Response string `json:"response,omitempty"`
}

// Result is what is known of one rule on one interface.
type Result struct {
	Rule      string      `json:"rule"`
	Section   string      `json:"section"`
	Level     rules.Level `json:"level"`
	Says      string      `json:"says"`
	Interface string      `json:"interface"`
	Outcome   Outcome     `json:"outcome"`
	Why       string      `json:"why,omitempty"`   // it was not measured
	Found     int         `json:"found,omitempty"` // how often it was broken
	Evidence  []Evidence  `json:"evidence,omitempty"`
}

// Report is what a run found.
type Report struct {
	Agent      string        `json:"agent"`
	Card       string        `json:"card"`
	Started    time.Time     `json:"started"`
	Took       time.Duration `json:"tookNanoseconds"`
	Interfaces []Interface   `json:"interfaces"`
	Made       Made          `json:"made"`
	Results    []Result      `json:"results"`
}

// Made is what a run made at the agent, and what it took back.
type Made struct {
	Tasks    int `json:"tasks"`
	Canceled int `json:"canceled"`
	Webhooks int `json:"webhooks"`
	Deleted  int `json:"deleted"`
	Left     int `json:"left"` // tasks that would not end
}

// Count returns how many results have an outcome.
func (r *Report) Count(o Outcome) (n int) {
	for i := range r.Results {
		if r.Results[i].Outcome == o {
			n++
		}
	}
	return n
}

// Summary returns the last line of a report.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d pass, %d fail, %d not measured", r.Count(Pass), r.Count(Fail), r.Count(NotMeasured))
}

// row is a rule with its results.
type row struct {
	Rule, Section, Says string
	Level               rules.Level
	Results             []Result
}

// rows returns the results by rule.
func (r *Report) rows() (out []*row) {
	for _, res := range r.Results {
		if n := len(out); n == 0 || out[n-1].Rule != res.Rule {
			out = append(out, &row{res.Rule, res.Section, res.Says, res.Level, nil})
		}
		last := out[len(out)-1]
		last.Results = append(last.Results, res)
	}
	return out
}

// outcome returns the worst of a rule's outcomes.
func (r *row) outcome() Outcome {
	out := NotMeasured
	for _, res := range r.Results {
		if res.Outcome == Fail {
			return Fail
		}
		if res.Outcome == Pass {
			out = Pass
		}
	}
	return out
}

// Text writes the report for a person; the summary is its last line. Verbose: also what passed, and the bytes.
func (r *Report) Text(w io.Writer, verbose bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Agent: %s\nCard: %s\n", printable(r.Agent), printable(r.Card))
	for _, i := range r.Interfaces {
		fmt.Fprintf(&b, "Interface: %s %s", printable(i.Binding), printable(i.URL))
		if i.Why != "" {
			fmt.Fprintf(&b, " (left out: %s)", printable(i.Why))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "Made: %s\n", r.Made)
	r.section(&b, Fail, verbose)
	r.unmeasured(&b)
	if verbose {
		r.section(&b, Pass, verbose)
	}
	fmt.Fprintf(&b, "\n%s\n", r.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// String says what was made in words.
func (m Made) String() string {
	s := fmt.Sprintf("%d tasks, of which %d were canceled; %d webhooks, of which %d were deleted", m.Tasks, m.Canceled, m.Webhooks, m.Deleted)
	if m.Left > 0 {
		s += fmt.Sprintf("; %d tasks would not end", m.Left)
	}
	return s
}

// section writes the rules with one outcome, each with what its results say.
func (r *Report) section(b *strings.Builder, o Outcome, verbose bool) {
	titles := map[Outcome]string{Fail: "Failed", Pass: "Passed"}
	head := false
	for _, row := range r.rows() {
		line := row.line(func(res *Result) bool { return res.Outcome == o })
		if line == "" {
			continue
		}
		if !head {
			fmt.Fprintf(b, "\n%s:\n", titles[o])
			head = true
		}
		fmt.Fprintf(b, "  %s\n", line)
		for _, res := range row.Results {
			if res.Outcome == o {
				res.text(b, verbose)
			}
		}
	}
}

// unmeasured writes what was not measured, under the reason: many rules have the same.
func (r *Report) unmeasured(b *strings.Builder) {
	var reasons []string
	for _, res := range r.Results {
		if res.Outcome == NotMeasured && !slices.Contains(reasons, res.Why) {
			reasons = append(reasons, res.Why)
		}
	}
	if len(reasons) > 0 {
		b.WriteString("\nNot measured:\n")
	}
	for _, why := range reasons {
		fmt.Fprintf(b, "  %s:\n", printable(why))
		for _, row := range r.rows() {
			if line := row.line(func(res *Result) bool { return res.Outcome == NotMeasured && res.Why == why }); line != "" {
				fmt.Fprintf(b, "    %s\n", line)
			}
		}
	}
}

// line returns the rule, and where it has the results that are meant; empty: nowhere.
func (r *row) line(meant func(*Result) bool) string {
	var at []string
	for i := range r.Results {
		if meant(&r.Results[i]) {
			at = append(at, r.Results[i].Interface)
		}
	}
	if len(at) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s (%s) %s [%s]", r.Level, r.Rule, r.Section, r.Says, strings.Join(at, ", "))
}

func (r *Result) text(b *strings.Builder, verbose bool) {
	for _, e := range r.Evidence {
		where := r.Interface
		if e.Path != "" {
			where += ", " + printable(e.Path)
		}
		fmt.Fprintf(b, "    %s: got %s, want %s\n", where, printable(e.Got), printable(e.Want))
		if verbose {
			block(b, "sent", e.Request)
			block(b, "came back", e.Response)
		}
		if !verbose {
			break
		}
	}
	if r.Found > 1 && !verbose {
		fmt.Fprintf(b, "    %s: %d times\n", r.Interface, r.Found)
	}
}

func block(b *strings.Builder, title, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(b, "      %s:\n", title)
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(b, "        %s\n", printable(line))
	}
}

// printable escapes what could move a terminal's cursor: an agent's words are not trusted.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		q := strconv.QuoteToGraphic(s)
		return q[1 : len(q)-1]
	}
	return s
}

// JSON writes the report as one JSON object.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		*Report

		Pass        int `json:"pass"`
		Fail        int `json:"fail"`
		NotMeasured int `json:"notMeasured"`
	}{r, r.Count(Pass), r.Count(Fail), r.Count(NotMeasured)})
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the report as a JUnit test suite; what was not measured is skipped.
func (r *Report) JUnit(w io.Writer) error {
	s := junitSuite{
		Name: "A2A conformance of " + r.Agent, Tests: len(r.Results), Failures: r.Count(Fail), Skipped: r.Count(NotMeasured),
		Time: fmt.Sprintf("%.3f", r.Took.Seconds()), Stamp: r.Started.Format("2006-01-02T15:04:05"),
	}
	for i := range r.Results {
		res := &r.Results[i]
		c := junitCase{Name: fmt.Sprintf("%s %s (%s): %s", res.Level, res.Rule, res.Section, res.Says), Class: res.Interface}
		switch res.Outcome {
		case Fail:
			var b strings.Builder
			res.text(&b, true)
			c.Failure = &junitText{fmt.Sprintf("got %s, want %s", printable(res.Evidence[0].Got), printable(res.Evidence[0].Want)), b.String()}
		case NotMeasured:
			c.Skipped = &junitText{Message: printable(res.Why)}
		case Pass:
		}
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

//go:embed report.html
var pageHTML string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"class": func(o Outcome) string { return strings.ReplaceAll(o.String(), " ", "-") },
}).Parse(pageHTML))

// HTML writes the report as one page that needs nothing else and runs nothing.
func (r *Report) HTML(w io.Writer) error {
	type htmlRow struct {
		*row
		Outcome Outcome
	}
	var rows []htmlRow
	for _, o := range []Outcome{Fail, NotMeasured, Pass} {
		for _, row := range r.rows() {
			if row.outcome() == o {
				rows = append(rows, htmlRow{row, o})
			}
		}
	}
	return pageTemplate.Execute(w, map[string]any{"Report": r, "Rows": rows})
}
