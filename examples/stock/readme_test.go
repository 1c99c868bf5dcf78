package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/extension"
)

// TestReadme: the program in README.md is the one below, and works.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	if program == "" || !strings.Contains(strings.ReplaceAll(string(source), "\n\t", "\n"), program) {
		t.Errorf("readme_test.go has another program than README.md:\n%s", program)
	}
	h := start(t)
	task := reserveAsInReadme(t.Context(), h.URL, h.token(t, "acme"))
	wantData(t, task, `{"reservation":"`+task.ID+`","sku":"BRG-10422","warehouse":"SBY-01","quantity":20}`)
}

func reserveAsInReadme(ctx context.Context, agentURL, token string) *a2a.Task {
	creds, _ := auth.NewCredentials(auth.Credential{
		Origins: []string{agentURL}, Source: auth.Static(auth.NewSecret(token)), Header: "Authorization",
	})
	c, _ := client.New(ctx, agentURL, client.Options{HTTP: creds.HTTP(nil), Extensions: []string{extension.Approval}})
	res, _ := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{
		Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("Reserve 20 of BRG-10422 in SBY-01")},
	}})
	task := res.(*a2a.Task)
	fmt.Println(approval.Pending(task).Resource) // 20 of BRG-10422 in SBY-01
	yes, _ := approval.Approve(task)
	res, _ = c.SendMessage(ctx, yes)
	return res.(*a2a.Task)
}
