-- +goose Up

-- What callers and agents name is bytea: their strings may hold a NUL, and bytes sort as the store's contract says.

-- The processes that hold leases. A node whose time is over never comes back under its name.
CREATE TABLE nodes (
  node       text PRIMARY KEY,
  expires_at timestamptz NOT NULL -- by the database's clock alone
);

-- The last batch that each process committed, so that one who lost the server's answer can ask.
CREATE TABLE writers (
  writer  uuid PRIMARY KEY,
  batch   bigint NOT NULL,
  used_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Whose tasks: an agent's, for one caller. Rows stay.
CREATE TABLE scopes (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  agent  bytea NOT NULL,
  tenant bytea NOT NULL,
  owner  bytea NOT NULL,
  UNIQUE (agent, tenant, owner)
);

-- Every process takes a thousand numbers at once.
CREATE SEQUENCE task_numbers INCREMENT BY 1000;

-- A task's place in lists, the end of its log, and its lease. A chunk changes no indexed column.
CREATE TABLE tasks (
  tid               bigint PRIMARY KEY,
  id                bytea NOT NULL UNIQUE,
  scope             bigint NOT NULL,
  context           bytea NOT NULL,
  state             smallint NOT NULL,         -- a2a.TaskState
  status_ms         bigint NOT NULL,           -- time of the status, Unix milliseconds
  status_generation bigint NOT NULL,           -- of the record that set the status
  keep              boolean NOT NULL,          -- Record.Keep of the status
  generation        bigint NOT NULL,           -- of the last record
  epoch             bigint NOT NULL,
  node              text NOT NULL,             -- empty: nobody holds the task
  latched           boolean NOT NULL,
  committed         boolean NOT NULL,
  trimmed           bigint NOT NULL DEFAULT 0, -- the log begins after this generation
  bytes             bigint NOT NULL,           -- size of the log
  snap_bytes        bigint NOT NULL,           -- size of the log at the last snapshot
  snap_size         bigint NOT NULL            -- size of that snapshot
) WITH (fillfactor = 80);
CREATE INDEX tasks_list ON tasks (scope, status_ms, id);
CREATE INDEX tasks_state ON tasks (scope, state, status_ms, id);
CREATE INDEX tasks_context ON tasks (scope, context, status_ms, id);
CREATE INDEX tasks_waiting ON tasks (status_ms) WHERE state IN (6, 8); -- INPUT_REQUIRED, AUTH_REQUIRED
CREATE INDEX tasks_unsettled ON tasks (id) WHERE node <> '' OR state = 1; -- held, or never started: SUBMITTED
-- Tasks that have ended, oldest first, and those of them that have a log.
CREATE INDEX tasks_ended ON tasks (status_ms) WHERE state IN (3, 4, 5, 7);
CREATE INDEX tasks_logged ON tasks (status_ms) WHERE state IN (3, 4, 5, 7) AND trimmed = 0;

CREATE TABLE log (
  tid        bigint NOT NULL,
  generation bigint NOT NULL,
  kind       smallint NOT NULL, -- 1 task, 2 status, 3 artifact, 4 message; 16 more: Record.Keep
  event      bytea NOT NULL,    -- StreamResponse as JSON
  turn       bytea,             -- Message as JSON
  request    bytea,             -- Record.Request
  PRIMARY KEY (tid, generation)
);

-- Tasks folded up to a generation, the artifacts apart from the rest so that lists need not read them.
CREATE TABLE snapshots (
  tid               bigint PRIMARY KEY,
  generation        bigint NOT NULL,
  status_generation bigint NOT NULL,
  keep              boolean NOT NULL,
  front             bytea NOT NULL, -- Task without artifacts as JSON
  artifacts         bytea           -- Task with nothing else as JSON
);

-- How many tasks of a scope are in a state: all of them (hour -2147483648), and those whose status is of an hour
-- (status_ms / 3,600,000). A number is the sum over the slots, of which every process uses one, so that two of
-- them rarely wait for one another.
CREATE TABLE counters (
  scope bigint NOT NULL,
  hour  integer NOT NULL,
  state smallint NOT NULL,
  slot  smallint NOT NULL,
  n     bigint NOT NULL,
  PRIMARY KEY (scope, hour, state, slot)
) WITH (fillfactor = 50);

-- What agents keep beside a context.
CREATE TABLE contexts (
  scope   bigint NOT NULL,
  id      bytea NOT NULL,
  used_ms bigint NOT NULL,
  vals    bytea NOT NULL, -- JSON object of strings
  PRIMARY KEY (scope, id)
);
CREATE INDEX contexts_used ON contexts (used_ms);

-- Messages that were taken. One whose task is gone was not.
CREATE TABLE sent (
  scope      bigint NOT NULL,
  message_id bytea NOT NULL,
  hash       bytea NOT NULL,
  reply      bytea,          -- NULL: a task
  task       bytea NOT NULL, -- its id; empty: none
  generation bigint NOT NULL,
  expires_ms bigint NOT NULL,
  PRIMARY KEY (scope, message_id)
);
CREATE INDEX sent_expires ON sent (expires_ms);

CREATE TABLE webhooks (
  task         bytea NOT NULL,
  id           bytea NOT NULL,
  config       bytea NOT NULL,  -- TaskPushNotificationConfig as JSON
  registration bytea NOT NULL,
  delivered    bigint NOT NULL, -- generation
  begun        boolean NOT NULL,
  attempts     integer NOT NULL,
  due_ms       bigint,          -- NULL: no time is set
  done         boolean NOT NULL,
  failure      bytea NOT NULL,
  PRIMARY KEY (task, id)
);
CREATE INDEX webhooks_open ON webhooks (task, id) WHERE NOT done;
