-- +goose Up

-- Whose tasks: an agent's, for one caller.
CREATE TABLE scopes (
  id     INTEGER PRIMARY KEY,
  agent  TEXT NOT NULL,
  tenant TEXT NOT NULL,
  owner  TEXT NOT NULL,
  UNIQUE (agent, tenant, owner)
) STRICT;

-- A task's place in lists and its lease. No row changes for a chunk: where the log ends stands in the log.
CREATE TABLE tasks (
  tid               INTEGER PRIMARY KEY,
  id                TEXT NOT NULL UNIQUE,
  scope             INTEGER NOT NULL,
  context           TEXT NOT NULL,
  state             INTEGER NOT NULL,           -- a2a.TaskState
  status_ms         INTEGER NOT NULL,           -- time of the status, Unix milliseconds
  status_generation INTEGER NOT NULL,           -- of the record that set the status
  epoch             INTEGER NOT NULL,
  node              TEXT NOT NULL,              -- empty: nobody holds the task
  latched           INTEGER NOT NULL,
  committed         INTEGER NOT NULL,
  trimmed           INTEGER NOT NULL DEFAULT 0  -- the log begins after this generation
) STRICT;
-- Lists are read from these three without the table: status_generation says whether memory has the same status.
CREATE INDEX tasks_list ON tasks (scope, status_ms, id, status_generation);
CREATE INDEX tasks_state ON tasks (scope, state, status_ms, id, status_generation);
CREATE INDEX tasks_context ON tasks (scope, context, status_ms, id, state, status_generation);
CREATE INDEX tasks_waiting ON tasks (status_ms) WHERE state IN (6, 8); -- INPUT_REQUIRED, AUTH_REQUIRED
CREATE INDEX tasks_unsettled ON tasks (id) WHERE node <> '' OR state = 1; -- held, or never started: SUBMITTED
-- Tasks that have ended, oldest first: those with a log, or a part of it, and those without. The record that
-- ended a task is the last one.
CREATE INDEX tasks_logged ON tasks (status_ms) WHERE state IN (3, 4, 5, 7) AND trimmed < status_generation;
CREATE INDEX tasks_trimmed ON tasks (status_ms) WHERE state IN (3, 4, 5, 7) AND trimmed >= status_generation;

-- Every record of every task in the order of their commits: what one transaction writes lies side by side,
-- and only the small index has a place for each task.
CREATE TABLE log (
  pos        INTEGER PRIMARY KEY,
  tid        INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  kind       INTEGER NOT NULL, -- 1 task, 2 status, 3 artifact, 4 message; 16 more: Record.Keep
  bytes      INTEGER NOT NULL, -- size of the task's log up to and with this record
  event      BLOB NOT NULL,    -- StreamResponse as JSON
  turn       BLOB,             -- Message as JSON
  request    BLOB              -- Record.Request
) STRICT;
CREATE UNIQUE INDEX log_task ON log (tid, generation);

-- Tasks folded up to a generation, the artifacts apart from the rest so that lists need not read them.
CREATE TABLE snapshots (
  tid               INTEGER PRIMARY KEY,
  generation        INTEGER NOT NULL,
  bytes             INTEGER NOT NULL, -- log.bytes there
  status_generation INTEGER NOT NULL,
  keep              INTEGER NOT NULL, -- Record.Keep of the status
  front             BLOB NOT NULL,    -- Task without artifacts as JSON
  artifacts         BLOB              -- Task with nothing else as JSON
) STRICT;

-- How many tasks of a scope are in a state, how many of them since a certain hour (status_ms / 3,600,000), and since
-- a certain minute.
CREATE TABLE totals (
  scope INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (scope, state)
) STRICT, WITHOUT ROWID;
CREATE TABLE hours (
  scope INTEGER NOT NULL,
  state INTEGER NOT NULL,
  hour  INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (scope, state, hour)
) STRICT, WITHOUT ROWID;
CREATE TABLE minutes (
  scope  INTEGER NOT NULL,
  state  INTEGER NOT NULL,
  minute INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (scope, state, minute)
) STRICT, WITHOUT ROWID;

-- What agents keep beside a context.
CREATE TABLE contexts (
  scope   INTEGER NOT NULL,
  id      TEXT NOT NULL,
  used_ms INTEGER NOT NULL,
  vals    BLOB NOT NULL, -- JSON object of strings
  PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX contexts_used ON contexts (used_ms);

-- Messages that were taken. One whose task is gone was not.
CREATE TABLE sent (
  pos        INTEGER PRIMARY KEY,
  scope      INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  hash       BLOB NOT NULL,
  reply      BLOB,             -- NULL: a task
  task       TEXT NOT NULL,    -- its id; empty: none
  generation INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  UNIQUE (scope, message_id)
) STRICT;
CREATE INDEX sent_expires ON sent (expires_ms);

-- Webhooks, under the ids of their tasks so that those not done can be read in that order.
CREATE TABLE webhooks (
  task         TEXT NOT NULL,
  id           TEXT NOT NULL,
  config       BLOB NOT NULL,    -- TaskPushNotificationConfig as JSON
  registration TEXT NOT NULL,
  delivered    INTEGER NOT NULL, -- generation
  begun        INTEGER NOT NULL,
  attempts     INTEGER NOT NULL,
  due_ms       INTEGER,          -- NULL: no time is set
  done         INTEGER NOT NULL,
  failure      TEXT NOT NULL,
  PRIMARY KEY (task, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_open ON webhooks (task, id) WHERE done = 0;
