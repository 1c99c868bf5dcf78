-- +goose Up

-- Who delivers; empty: nobody yet.
ALTER TABLE webhooks ADD COLUMN node text NOT NULL DEFAULT '';

-- What a node is to cancel.
CREATE INDEX tasks_latched ON tasks (node) WHERE latched;

-- What all nodes must have the same, such as the key that signs webhooks.
CREATE TABLE secrets (
  name  text PRIMARY KEY,
  value bytea NOT NULL
);
