-- +goose Up
-- What the search of sessions reads besides titles and ids: the agent and the
-- beginning of the prompt of each root run, in lower case. Beside the rows of
-- runs and sessions, which are rewritten often.
CREATE TABLE session_texts (
  session_id TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  text_fold TEXT NOT NULL,
  PRIMARY KEY (session_id, run_id)
);

INSERT INTO session_texts (session_id, run_id, text_fold)
SELECT session_id, id, lower(agent || chr(10) || substr(coalesce(input::json->>'prompt', ''), 1, 1000))
FROM runs WHERE parent_id = '' AND session_id IN (SELECT id FROM sessions);
