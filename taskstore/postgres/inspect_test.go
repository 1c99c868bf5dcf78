//go:build unix

package postgres

import (
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

func TestStatsAndCheck(t *testing.T) {
	c := need(t)
	name := c.database(t)
	s := open(t, c.URL(c.Dir, name), Options{CacheBytes: 1})
	join(t, s, "a")
	begin(t, s, "running", "a")
	r := begin(t, s, "done", "a")
	end := now()
	commit(t, s, taskstore.Change{
		Key: key("done"), Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(key("done"), a2a.TaskStateCompleted, end)},
		Webhook: &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: "w", URL: "https://example.com/"}, Registration: "r"},
	})
	st, err := s.Stats(t.Context())
	if err != nil || st.Tasks[a2a.TaskStateWorking] != 1 || st.Tasks[a2a.TaskStateCompleted] != 1 || len(st.Tasks) != 2 ||
		st.Records != 5 || st.Bytes == 0 || !st.OldestEnded.Equal(end) || st.Pending != 1 || st.Dead != 0 || st.Nodes != 1 {
		t.Errorf("Stats = %+v, %v", st, err)
	}
	check := func(want string) {
		t.Helper()
		read := 0
		wrong, err := s.Check(t.Context(), func(n int) { read = n })
		if err != nil || read != 2 || want == "" && len(wrong) > 0 || want != "" && (len(wrong) == 0 || wrong[0] != want) {
			t.Errorf("Check = %q, %v after %d tasks; want %q", wrong, err, read, want)
		}
	}
	check("")
	for want, sql := range map[string][2]string{
		"1 tasks have a gap in their log":           {"UPDATE log SET generation = 7 WHERE tid = (SELECT tid FROM tasks WHERE id = 'done') AND generation = 2", "UPDATE log SET generation = 2 WHERE generation = 7"},
		"1 counters are not as the tasks are":       {"UPDATE counters SET n = n + 1 WHERE hour = -2147483648 AND state = 3", "UPDATE counters SET n = n - 1 WHERE hour = -2147483648 AND state = 3"},
		"1 tasks have ended, and a node holds them": {"UPDATE tasks SET node = 'a' WHERE id = 'done'", "UPDATE tasks SET node = '' WHERE id = 'done'"},
	} {
		c.Exec(t, name, sql[0])
		check(want)
		c.Exec(t, name, sql[1])
	}
	check("")
}

func TestSecret(t *testing.T) {
	a, b := two(t)
	for i, s := range []*Store{a, b, a} {
		got, err := s.Secret(t.Context(), "key", []byte{byte(i)})
		if err != nil || len(got) != 1 || got[0] != 0 {
			t.Errorf("Secret = %v, %v", got, err)
		}
	}
}
