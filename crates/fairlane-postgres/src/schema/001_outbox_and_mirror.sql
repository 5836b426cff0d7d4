-- Jobs that a transaction has committed and the relay has not yet passed on. Rows are added and
-- deleted, never updated. The ids of one transaction grow, which is all that their order needs, so
-- each connection may draw many at once.
CREATE TABLE fairlane_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY (CACHE 32),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    shard smallint NOT NULL
        GENERATED ALWAYS AS ((hashtext(coalesce(job->>'group', '')) & 15)::smallint) STORED,
    created_at timestamptz NOT NULL DEFAULT now(),
    job jsonb NOT NULL,
    PRIMARY KEY (shard, xid, id),
    CONSTRAINT fairlane_outbox_job_names_its_group_and_type CHECK (
        coalesce(jsonb_typeof(job->'group') = 'string' AND jsonb_typeof(job->'type') = 'string', false)
    )
) WITH (
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

-- The state of every job that the relay has passed on, or that a worker with a mirror has begun.
-- Numbers grow in the order of commits of a group, in which a queue is refilled: none is drawn ahead.
CREATE TABLE fairlane_mirror (
    group_id text NOT NULL,
    id text NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    type text NOT NULL,
    status text NOT NULL CHECK (status IN ('QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED')),
    fence bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    job jsonb,
    result jsonb,
    error jsonb,
    queued_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    touched_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (group_id, id),
    CHECK ((ended_at IS NOT NULL) = (status IN ('SUCCEEDED', 'FAILED')))
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX fairlane_mirror_open ON fairlane_mirror (number) WHERE ended_at IS NULL;
CREATE INDEX fairlane_mirror_ended ON fairlane_mirror (ended_at) WHERE ended_at IS NOT NULL;

-- What an application reads: QUEUED from the moment of its commit.
CREATE VIEW fairlane_jobs AS
SELECT group_id, id, type, status, attempts, result, error, queued_at, started_at, ended_at
FROM fairlane_mirror
UNION ALL
SELECT o.job->>'group', coalesce(o.job->>'id', o.xid || '-' || o.id), o.job->>'type', 'QUEUED', 0,
    NULL, NULL, o.created_at, NULL, NULL
FROM fairlane_outbox o
WHERE NOT EXISTS (
    SELECT FROM fairlane_mirror m
    WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
);

-- Adds a job in the current transaction and returns its id. Options are those of a line of jobs:
-- level, cost, delay_ms or run_at, trace.
CREATE FUNCTION fairlane_enqueue(
    group_id text, type text, id text DEFAULT NULL, payload jsonb DEFAULT 'null', options jsonb DEFAULT '{}'
) RETURNS text LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO fairlane_outbox (job)
    VALUES (options || jsonb_build_object(
        'group', $1, 'type', $2, 'id', coalesce($3, gen_random_uuid()::text), 'payload', $4
    ))
    RETURNING job->>'id';
END;
