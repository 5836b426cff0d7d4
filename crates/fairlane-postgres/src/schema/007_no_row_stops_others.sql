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

-- Moves rows from the outbox to the mirror, as before, and returns those whose ids the mirror knows as
-- ended jobs with another type or payload; null for none.
--
-- A row that an older version has accepted may have names of any length. Such a job can never be
-- enqueued: it is recorded with the beginning of its group, and under the name of its row if its id is
-- too long.
--
-- The statement for a batch of new jobs compares nothing. It counts the rows that it has written, and
-- if some are missing, the mirror has their ids: then all of it is undone, and the rows are compared.
DROP FUNCTION fairlane_outbox_move(smallint, jsonb);
CREATE FUNCTION fairlane_outbox_move(shard smallint, done jsonb) RETURNS jsonb LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    first_xid xid8 := (done->0->>'xid')::xid8;
    first_id bigint := (done->0->>'id')::bigint;
    last_xid xid8 := (done->-1->>'xid')::xid8;
    last_id bigint := (done->-1->>'id')::bigint;
    written integer;
    element jsonb;
    conflicts jsonb := '[]';
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
    WHERE m.job IS NULL AND EXCLUDED.error IS NULL;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written < jsonb_array_length(done) THEN
        RAISE SQLSTATE 'FL001' USING MESSAGE = 'the mirror has ids of this batch';
    END IF;
    RETURN NULL;
EXCEPTION
    WHEN SQLSTATE 'FL001' THEN
        RETURN fairlane_outbox_move_known(fairlane_outbox_move.shard, done);
    WHEN cardinality_violation THEN
        FOR element IN SELECT jsonb_array_elements(done) LOOP
            conflicts := conflicts || coalesce(
                fairlane_outbox_move(fairlane_outbox_move.shard, jsonb_build_array(element)), '[]'
            );
        END LOOP;
        RETURN nullif(conflicts, '[]');
END $$;

-- Moves rows of which the mirror has ids. The id of an ended job stays its own for as long as the
-- mirror has the job, also after the queue has forgotten it: another job of this id is recorded as a
-- conflict, under the name of its row, and so is a job that can never be enqueued. An equal job is a
-- repetition and changes nothing. A job that could not be enqueued gives its id up.
CREATE FUNCTION fairlane_outbox_move_known(shard smallint, done jsonb) RETURNS jsonb LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    first_xid xid8 := (done->0->>'xid')::xid8;
    first_id bigint := (done->0->>'id')::bigint;
    last_xid xid8 := (done->-1->>'xid')::xid8;
    last_id bigint := (done->-1->>'id')::bigint;
    conflicts jsonb;
BEGIN
    WITH gone AS (
        DELETE FROM fairlane_outbox o
        USING jsonb_to_recordset(done) AS moved(xid xid8, id bigint, error jsonb, name text)
        WHERE o.shard = fairlane_outbox_move_known.shard
            AND (o.xid, o.id) >= (first_xid, first_id) AND (o.xid, o.id) <= (last_xid, last_id)
            AND o.xid = moved.xid AND o.id = moved.id
        RETURNING o.xid, o.id, o.job, o.created_at, moved.error, left(o.job->>'group', 128) AS group_id,
            coalesce(
                moved.name,
                CASE WHEN moved.error IS NULL OR octet_length(o.job->>'id') <= 128 THEN o.job->>'id' END,
                o.xid || '-' || o.id
            ) AS name
    ), compared AS (
        SELECT gone.*, coalesce((
            SELECT CASE
                WHEN gone.error IS NOT NULL THEN m.job IS DISTINCT FROM gone.job
                WHEN m.fence = 0 AND m.error->>'code' = 'invalid_job' THEN false
                ELSE m.ended_at IS NOT NULL AND (
                    m.job->'type', coalesce(m.job->'payload', 'null'), m.job->'payload_base64'
                ) IS DISTINCT FROM (
                    gone.job->'type', coalesce(gone.job->'payload', 'null'), gone.job->'payload_base64'
                ) AND m.job IS NOT NULL
            END
            FROM fairlane_mirror m WHERE m.group_id = gone.group_id AND m.id = gone.name
        ), false) AS differs
        FROM gone
    ), written AS (
        INSERT INTO fairlane_mirror AS m (group_id, id, type, status, job, error, queued_at, ended_at)
        SELECT group_id, CASE WHEN differs THEN xid || '-' || id ELSE name END, job->>'type',
            CASE WHEN error IS NULL AND NOT differs THEN 'QUEUED' ELSE 'FAILED' END, job,
            CASE WHEN differs THEN coalesce(error, jsonb_build_object(
                'code', 'conflict', 'message', 'job ' || name || ' of this group has ended with another type or payload'
            )) ELSE error END,
            created_at, CASE WHEN error IS NOT NULL OR differs THEN now() END
        FROM compared
        ON CONFLICT (group_id, id) DO UPDATE
        SET job = EXCLUDED.job, queued_at = EXCLUDED.queued_at,
            type = CASE WHEN m.job IS NULL THEN m.type ELSE EXCLUDED.type END,
            status = CASE WHEN m.job IS NULL THEN m.status ELSE EXCLUDED.status END,
            error = CASE WHEN m.job IS NULL THEN m.error END,
            ended_at = CASE WHEN m.job IS NULL THEN m.ended_at END
        WHERE EXCLUDED.error IS NULL
            AND (m.job IS NULL OR m.fence = 0 AND m.error->>'code' = 'invalid_job')
    )
    SELECT jsonb_agg(jsonb_build_object('xid', xid::text, 'id', id)) INTO conflicts
    FROM compared WHERE differs AND error IS NULL;
    RETURN conflicts;
END $$;

-- Takes a shard and reads its next rows, as before. If the host of the relay vanishes, its transaction
-- would keep the shard until TCP notices, hours later. An enqueue and its retries are shorter than the
-- limit; if one is longer, its batch is sent again.
--
-- A row is converted to text when it is returned, and the claim ends at its bytes in either order: rows
-- beyond them are neither converted nor, without an order, locked, apart from up to 50 that PostgreSQL
-- reads ahead.
CREATE OR REPLACE FUNCTION fairlane_outbox_claim(
    after integer, in_order boolean, full_groups text[], rows_max integer, bytes_max bigint
) RETURNS TABLE (
    shard smallint, more boolean, waiting boolean,
    xid text, id bigint, group_id text, job text, has_ended boolean
) LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_sort = off SET enable_seqscan = off SET enable_material = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    commit_mode text := set_config('synchronous_commit', 'off', true);
    idle_limit text := set_config('idle_in_transaction_session_timeout', '5min', true);
    candidate smallint := after;
    taken smallint;
    bytes bigint := 0;
BEGIN
    more := false;
    waiting := false;
    LOOP
        SELECT o.shard INTO candidate FROM fairlane_outbox o
        WHERE o.shard > candidate ORDER BY o.shard LIMIT 1;
        EXIT WHEN candidate IS NULL;
        waiting := true;
        more := taken IS NOT NULL;
        EXIT WHEN more;
        IF NOT in_order OR pg_try_advisory_xact_lock(1717660018, candidate) THEN
            taken := candidate;
        END IF;
    END LOOP;
    shard := taken;
    RETURN NEXT;
    IF taken IS NULL THEN
        RETURN;
    END IF;
    more := false;
    waiting := true;
    IF NOT in_order THEN
        FOR xid, id, group_id, job, has_ended IN
            SELECT o.xid::text, o.id, o.job->>'group', (o.job - 'group')::text,
                o.created_at < now() - interval '1 minute' AND coalesce((
                    SELECT m.ended_at IS NOT NULL FROM fairlane_mirror m
                    WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
                ), false)
            FROM fairlane_outbox o
            WHERE o.shard = taken AND NOT o.job->>'group' = ANY(full_groups)
            ORDER BY o.xid, o.id LIMIT rows_max
            FOR UPDATE OF o SKIP LOCKED
        LOOP
            RETURN NEXT;
            bytes := bytes + octet_length(job);
            EXIT WHEN bytes >= bytes_max;
        END LOOP;
        RETURN;
    END IF;
    FOR xid, id, group_id, job, has_ended IN
        SELECT picked.xid::text, picked.id, picked.job->>'group', (picked.job - 'group')::text,
            -- A row that is sent later than a minute after its commit is compared with the mirror first:
            -- it may have been sent before, and the queue forgets the ids of ended jobs.
            (picked.is_restored OR picked.created_at < now() - interval '1 minute') AND coalesce((
                SELECT m.ended_at IS NOT NULL FROM fairlane_mirror m
                WHERE m.group_id = picked.job->>'group'
                    AND m.id = coalesce(picked.job->>'id', picked.xid || '-' || picked.id)
            ), false)
        FROM (
            (SELECT o.xid, o.id, o.created_at, o.job, false AS is_restored
            FROM fairlane_outbox o
            WHERE o.shard = taken AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
                AND NOT o.job->>'group' = ANY(full_groups)
            ORDER BY o.xid, o.id LIMIT rows_max)
            UNION ALL
            -- Rows at or above the end of the snapshot come from the dump of another server.
            (SELECT o.xid, o.id, o.created_at, o.job, true
            FROM fairlane_outbox o
            WHERE o.shard = taken AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
                AND NOT o.job->>'group' = ANY(full_groups)
            ORDER BY o.xid, o.id LIMIT rows_max)
            LIMIT rows_max
        ) AS picked
    LOOP
        RETURN NEXT;
        bytes := bytes + octet_length(job);
        EXIT WHEN bytes >= bytes_max;
    END LOOP;
END $$;
