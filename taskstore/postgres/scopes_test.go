//go:build unix

package postgres

import (
	"strings"
	"testing"

	"github.com/parley-a2a/parley/taskstore"
)

// TestScopesPlan looks that whose tasks there are is not found out by reading the tasks: neither where one scope has all of
// them nor for scopes that have none any more.
func TestScopesPlan(t *testing.T) {
	s := openNew(t, Options{})
	for _, sql := range []string{
		"INSERT INTO scopes (agent, tenant, owner) SELECT 'echo', '', convert_to('i' || n, 'UTF8') FROM generate_series(1, 50) n",
		`INSERT INTO tasks (tid, id, scope, context, state, status_ms, status_generation, keep, generation, epoch, node, latched, committed,
				bytes, snap_bytes, snap_size)
			SELECT n, convert_to('t' || n, 'UTF8'), (SELECT min(id) FROM scopes), 'c', 3, n, 1, false, 1, 0, '', false, false, 1, 0, 0
			FROM generate_series(1, 50000) n`,
		"ANALYZE",
	} {
		if _, err := s.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Scopes(t.Context(), "echo", nil, 10); err != nil || len(got) != 1 || got[0] != (taskstore.Scope{Agent: "echo", Owner: "i1"}) {
		t.Errorf("Scopes = %+v, %v", got, err)
	}
	rows, err := s.pool.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off) "+scopesOf, []byte("echo"), []byte{}, []byte{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(plan, "\n")
	if strings.Contains(all, "Seq Scan on tasks") || !strings.Contains(all, "tasks_list") {
		t.Errorf("the tasks are read:\n%s", all)
	}
}
