-- Statements whose plans do not depend on the statistics of the tables. With those that a VACUUM
-- leaves behind, PostgreSQL may compare each row of a shard with each row of the batch.

-- Takes a shard and reads its next rows, as before. The mirror is asked by its primary key: with the
-- end of the job among the conditions, PostgreSQL may walk the index of all ended jobs for each row.
CREATE OR REPLACE FUNCTION fairlane_outbox_claim(
    after integer, in_order boolean, full_groups jsonb, rows_max integer, bytes_max bigint
) RETURNS TABLE (
    shard smallint, more boolean, waiting boolean,
    xid text, id bigint, group_id text, job text, has_ended boolean
) LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_sort = off SET enable_seqscan = off SET enable_material = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    candidate smallint := after;
    taken smallint;
    skipped text[] := ARRAY(SELECT jsonb_array_elements_text(full_groups));
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
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
    IF NOT in_order THEN
        RETURN QUERY
        SELECT taken, false, true, o.xid::text, o.id, o.job->>'group', (o.job - 'group')::text,
            o.created_at < now() - interval '1 minute' AND coalesce((
                SELECT m.ended_at IS NOT NULL FROM fairlane_mirror m
                WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
            ), false)
        FROM fairlane_outbox o
        WHERE o.shard = taken AND NOT o.job->>'group' = ANY(skipped)
        ORDER BY o.xid, o.id LIMIT rows_max
        FOR UPDATE OF o SKIP LOCKED;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT taken, false, true, sized.xid::text, sized.id, sized.group_id, sized.job,
        -- A row that is sent later than a minute after its commit is compared with the mirror first:
        -- it may have been sent before, and the queue forgets the ids of ended jobs.
        (sized.is_restored OR sized.created_at < now() - interval '1 minute') AND coalesce((
            SELECT m.ended_at IS NOT NULL FROM fairlane_mirror m
            WHERE m.group_id = sized.group_id AND m.id = coalesce(sized.name, sized.xid || '-' || sized.id)
        ), false)
    FROM (
        SELECT picked.xid, picked.id, picked.created_at, picked.is_restored, picked.job->>'group' AS group_id,
            picked.job->>'id' AS name, body.job,
            sum(octet_length(body.job)) OVER (ROWS UNBOUNDED PRECEDING) - octet_length(body.job) AS bytes_before
        FROM (
            (SELECT o.xid, o.id, o.created_at, o.job, false AS is_restored
            FROM fairlane_outbox o
            WHERE o.shard = taken AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
                AND NOT o.job->>'group' = ANY(skipped)
            ORDER BY o.xid, o.id LIMIT rows_max)
            UNION ALL
            -- Rows at or above the end of the snapshot come from the dump of another server.
            (SELECT o.xid, o.id, o.created_at, o.job, true
            FROM fairlane_outbox o
            WHERE o.shard = taken AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
                AND NOT o.job->>'group' = ANY(skipped)
            ORDER BY o.xid, o.id LIMIT rows_max)
            LIMIT rows_max
        ) AS picked, LATERAL (SELECT (picked.job - 'group')::text AS job OFFSET 0) AS body
    ) AS sized
    WHERE sized.bytes_before < bytes_max;
END $$;

-- Moves rows from the outbox to the mirror, as before. `done` is in the order of `xid` and `id`, and
-- the scan of the index begins and ends with its first and last row, so that it reads no more of the
-- shard than the batch and the rows of full groups between. The statement fails for a batch that has
-- a job twice, and nothing of it remains; then the rows move one by one, in order, and the first row
-- of a job counts.
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
            moved.name, o.job->>'id', o.xid || '-' || o.id
        ) AS name
    )
    INSERT INTO fairlane_mirror AS m (group_id, id, type, status, job, error, queued_at, ended_at)
    SELECT job->>'group', name, job->>'type', CASE WHEN error IS NULL THEN 'QUEUED' ELSE 'FAILED' END,
        job, error, created_at, CASE WHEN error IS NOT NULL THEN now() END
    FROM gone
    ON CONFLICT (group_id, id) DO UPDATE SET job = EXCLUDED.job, queued_at = EXCLUDED.queued_at
    WHERE m.job IS NULL;
EXCEPTION WHEN cardinality_violation THEN
    FOR element IN SELECT jsonb_array_elements(done) LOOP
        PERFORM fairlane_outbox_move(fairlane_outbox_move.shard, jsonb_build_array(element));
    END LOOP;
END $$;

-- Marks jobs as RUNNING under their leases, as before. The mirror is asked for one job at a time, by
-- subqueries that PostgreSQL cannot turn into a join of all of its rows with the leases.
CREATE OR REPLACE FUNCTION fairlane_mirror_begin(leases jsonb)
RETURNS TABLE (group_id text, id text, ended boolean, result text) LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    begun integer;
BEGIN
    IF NOT EXISTS (
        SELECT FROM jsonb_to_recordset(leases) AS new(group_id text, id text)
        WHERE (
            SELECT m.fence FROM fairlane_mirror m WHERE m.group_id = new.group_id AND m.id = new.id
        ) > 0
    ) THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    INSERT INTO fairlane_mirror AS m (group_id, id, type, status, fence, attempts, started_at)
    SELECT new.group_id, new.id, new.type, 'RUNNING', new.fence, new.attempts, now()
    FROM jsonb_to_recordset(leases)
        AS new(group_id text, id text, type text, fence bigint, attempts integer)
    ON CONFLICT (group_id, id) DO UPDATE
    SET status = 'RUNNING', fence = EXCLUDED.fence, attempts = EXCLUDED.attempts,
        started_at = now(), touched_at = now(), ended_at = NULL, error = NULL
    WHERE m.status <> 'SUCCEEDED' AND m.fence <= EXCLUDED.fence;
    GET DIAGNOSTICS begun = ROW_COUNT;
    IF begun = jsonb_array_length(leases) THEN
        RETURN;
    END IF;
    -- A statement of its own, which sees what the first one has waited for.
    RETURN QUERY
    SELECT new.group_id, new.id, coalesce(m.status = 'SUCCEEDED', false), m.result::text
    FROM jsonb_to_recordset(leases) AS new(group_id text, id text, fence bigint)
    LEFT JOIN LATERAL (
        SELECT * FROM fairlane_mirror o WHERE o.group_id = new.group_id AND o.id = new.id OFFSET 0
    ) AS m ON true
    WHERE m.id IS NULL OR m.status = 'SUCCEEDED' OR m.fence > new.fence;
END $$;
