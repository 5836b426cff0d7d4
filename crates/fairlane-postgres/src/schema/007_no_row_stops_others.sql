-- Rows, relays and transactions that go wrong hold up as little as possible.

-- Computes the shard of a row and checks its job, as before. A group or id that is longer than any
-- queue accepts is refused too: the mirror, which has both in its primary key, could not hold it.
CREATE OR REPLACE FUNCTION fairlane_outbox_prepare() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    group_id text := NEW.job->>'group';
BEGIN
    IF jsonb_typeof(NEW.job->'group') = 'string' AND jsonb_typeof(NEW.job->'type') = 'string' THEN
        IF octet_length(group_id) > 128 OR octet_length(NEW.job->>'id') > 128 THEN
            RAISE check_violation USING
                MESSAGE = 'new row for relation "fairlane_outbox" violates check constraint '
                    '"fairlane_outbox_job_names_are_short"',
                DETAIL = 'The group and the id of a job have at most 128 bytes each.',
                SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
                CONSTRAINT = 'fairlane_outbox_job_names_are_short';
        END IF;
        NEW.shard := hashtext(group_id) & 15;
        RETURN NEW;
    END IF;
    RAISE check_violation USING
        MESSAGE = 'new row for relation "fairlane_outbox" violates check constraint '
            '"fairlane_outbox_job_names_its_group_and_type"',
        DETAIL = 'The job needs the keys "group" and "type", which are strings.',
        SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
        CONSTRAINT = 'fairlane_outbox_job_names_its_group_and_type';
END $$;

-- Moves rows from the outbox to the mirror, as before. A row that an older version has accepted may
-- have names of any length. Such a job can never be enqueued: it is recorded with the beginning of
-- its group, and under the name of its row if its id is too long.
CREATE OR REPLACE FUNCTION fairlane_outbox_move(shard smallint, done jsonb) RETURNS void LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    first_xid xid8 := (done->0->>'xid')::xid8;
    first_id bigint := (done->0->>'id')::bigint;
    last_xid xid8 := (done->-1->>'xid')::xid8;
    last_id bigint := (done->-1->>'id')::bigint;
    element jsonb;
BEGIN
    WITH gone AS (
        DELETE FROM fairlane_outbox o
        USING jsonb_to_recordset(done) AS moved(xid xid8, id bigint, error jsonb, name text)
        WHERE o.shard = fairlane_outbox_move.shard
            AND (o.xid, o.id) >= (first_xid, first_id) AND (o.xid, o.id) <= (last_xid, last_id)
            AND o.xid = moved.xid AND o.id = moved.id
        RETURNING o.xid, o.id, o.job, o.created_at, moved.error, coalesce(
            moved.name,
            CASE WHEN moved.error IS NULL OR octet_length(o.job->>'id') <= 128 THEN o.job->>'id' END,
            o.xid || '-' || o.id
        ) AS name
    )
    INSERT INTO fairlane_mirror AS m (group_id, id, type, status, job, error, queued_at, ended_at)
    SELECT CASE WHEN error IS NULL THEN job->>'group' ELSE left(job->>'group', 128) END,
        name, job->>'type', CASE WHEN error IS NULL THEN 'QUEUED' ELSE 'FAILED' END,
        job, error, created_at, CASE WHEN error IS NOT NULL THEN now() END
    FROM gone
    ON CONFLICT (group_id, id) DO UPDATE SET job = EXCLUDED.job, queued_at = EXCLUDED.queued_at
    WHERE m.job IS NULL;
EXCEPTION WHEN cardinality_violation THEN
    FOR element IN SELECT jsonb_array_elements(done) LOOP
        PERFORM fairlane_outbox_move(fairlane_outbox_move.shard, jsonb_build_array(element));
    END LOOP;
END $$;
