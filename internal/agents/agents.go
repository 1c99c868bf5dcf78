// Package agents has the agents that are built into the command: Revisor, which counts text, echo, a demonstration,
// and the one that the protocol's compatibility kit drives.
package agents

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/examples/revisor/textstats"
)

// Agent is an agent with what its card says about it.
type Agent struct {
	// Agent does the work. It is to be served as it is: it may implement more than [agent.Agent].
	Agent       agent.Agent
	Name        string
	Description string
	Version     string
	Skills      []*a2a.AgentSkill
	InputModes  []string // media types
	OutputModes []string // media types
}

// Options are settings of built-in agents; each ignores those of the others.
type Options struct {
	// Pace is Revisor's pause at each tenth of a text.
	Pace time.Duration
}

// version is that of the agents which are part of this program rather than an example of their own.
const version = "1.0.0"

var byName = map[string]func(Options) (Agent, error){
	"revisor":     revisor,
	"echo":        echo,
	"conformance": conformance,
	"demo":        demo,
}

// Names returns the names that [ByName] knows, sorted.
func Names() []string {
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ByName returns a built-in agent.
func ByName(name string, o Options) (Agent, error) {
	build, ok := byName[name]
	if !ok {
		return Agent{}, fmt.Errorf("there is no built-in agent %q: choose one of %s", name, strings.Join(Names(), ", "))
	}
	return build(o)
}

func revisor(o Options) (Agent, error) {
	return Agent{
		Agent:       textstats.Agent{Pace: o.Pace},
		Name:        textstats.Name,
		Description: textstats.Description,
		Version:     textstats.Version,
		Skills:      textstats.Skills(),
		InputModes:  textstats.InputModes(),
		OutputModes: textstats.OutputModes(),
	}, nil
}

func echo(Options) (Agent, error) {
	return Agent{
		Agent: agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
			return u.Artifact(a2a.Artifact{Name: "echo", Parts: r.Message.Parts})
		}),
		Name:        "Echo",
		Description: "Answers a message with its own parts, unchanged.",
		Version:     version,
		Skills: []*a2a.AgentSkill{{
			ID:          "echo",
			Name:        "Echo",
			Description: "Returns the parts of the message as one artifact. Takes every media type.",
			Tags:        []string{"echo", "test"},
			Examples:    []string{"Hello"},
		}},
		InputModes:  []string{"*/*"},
		OutputModes: []string{"*/*"},
	}, nil
}

func conformance(Options) (Agent, error) {
	timeout, err := streamingTimeout(os.Getenv("TCK_STREAMING_TIMEOUT"))
	if err != nil {
		return Agent{}, err
	}
	return Agent{
		Agent:       conformanceAgent{streamingTimeout: timeout},
		Name:        "Conformance",
		Description: "Does what the messageId begins with: the agent that the protocol's compatibility kit drives.",
		Version:     version,
		Skills: []*a2a.AgentSkill{{
			ID:          "conformance",
			Name:        "Conformance",
			Description: "Takes a message to a given end, such as a rejected task, an artifact or a question.",
			Tags:        []string{"test"},
			Examples:    []string{"a message with the messageId tck-artifact-text-1"},
		}},
		InputModes:  []string{"text/plain"},
		OutputModes: []string{"text/plain", "application/json"},
	}, nil
}
