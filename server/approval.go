package server

import (
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

// checkApproval refuses, under approval, an answer that does not answer the question that the task waits on: it is not
// recorded, and the question stays. A message without an answer is any message.
func (c *call) checkApproval(task *a2a.Task, m *a2a.Message) error {
	if !c.active(extension.Approval) {
		return nil
	}
	answer, err := extension.ApprovalAnswerIn(m)
	if answer == nil && err == nil {
		return nil
	}
	if err == nil {
		err = settles(task.Status.Message, answer)
	}
	if err != nil {
		return a2a.InvalidField("message.parts", "%s", err)
	}
	return nil
}

func settles(question *a2a.Message, answer *extension.ApprovalAnswer) error {
	q, err := extension.ApprovalRequestIn(question)
	if q == nil || err != nil {
		return extension.ErrNotApproved
	}
	_, err = q.Settle(answer, time.Now())
	return err
}
