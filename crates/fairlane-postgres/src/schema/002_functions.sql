-- The statements of relays and workers that a job waits for, as functions: each is one round trip,
-- and PostgreSQL keeps their plans, behind a PgBouncer too.

-- Takes the first shard above `after` that has rows and that no other relay has, until the end of
-- the transaction, and reads its next rows in the order of commits. Every statement of the function
-- has a snapshot of its own: the rows are read after the shard was taken, without those that the
-- last relay has deleted.
--
-- The first row of the reply has no job: `shard` is the one that was taken, if any, `more` is
-- whether a later shard has rows, and `waiting` whether any shard above `after` has.
--
-- The transaction does not wait for the disk when it commits. If the server crashes, the rows are
-- back in the outbox, and are enqueued again under the same ids, which changes nothing.
--
-- The settings make reads walk the index. Statistics of a table that fills and empties all the time
-- are old, and PostgreSQL would read and sort all rows of a shard to find the first ones. A sort that
-- is needed after all has a huge cost, for which PostgreSQL would compile the statement.
CREATE FUNCTION fairlane_outbox_claim(
    after integer, in_order boolean, full_groups jsonb, rows_max integer, bytes_max bigint
) RETURNS TABLE (
    shard smallint, more boolean, waiting boolean,
    xid text, id bigint, group_id text, job text, has_ended boolean
) LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_sort = off SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan
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
            o.created_at < now() - interval '1 minute' AND EXISTS (
                SELECT FROM fairlane_mirror m
                WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
                    AND m.ended_at IS NOT NULL
            )
        FROM fairlane_outbox o
        WHERE o.shard = taken AND NOT o.job->>'group' = ANY(skipped)
        ORDER BY o.xid, o.id LIMIT rows_max
        FOR UPDATE OF o SKIP LOCKED;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT taken, false, true, bounded.xid, bounded.id, bounded.group_id, bounded.job, bounded.has_ended
    FROM (
        SELECT picked.*, sum(octet_length(picked.job)) OVER (ROWS UNBOUNDED PRECEDING)
            - octet_length(picked.job) AS bytes_before
        FROM (
            -- A row that is sent later than a minute after its commit is compared with the mirror
            -- first: it may have been sent before, and the queue forgets the ids of ended jobs.
            (SELECT o.xid::text AS xid, o.id, o.job->>'group' AS group_id, (o.job - 'group')::text AS job,
                CASE WHEN o.created_at < now() - interval '1 minute' THEN EXISTS (
                    SELECT FROM fairlane_mirror m
                    WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
                        AND m.ended_at IS NOT NULL
                ) ELSE false END AS has_ended
            FROM fairlane_outbox o
            WHERE o.shard = taken AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
                AND NOT o.job->>'group' = ANY(skipped)
            ORDER BY o.xid, o.id LIMIT rows_max)
            UNION ALL
            -- Rows at or above the end of the snapshot come from the dump of another server.
            (SELECT o.xid::text, o.id, o.job->>'group', (o.job - 'group')::text, EXISTS (
                SELECT FROM fairlane_mirror m
                WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
                    AND m.ended_at IS NOT NULL
            )
            FROM fairlane_outbox o
            WHERE o.shard = taken AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
                AND NOT o.job->>'group' = ANY(skipped)
            ORDER BY o.xid, o.id LIMIT rows_max)
            LIMIT rows_max
        ) AS picked
    ) AS bounded
    WHERE bounded.bytes_before < bytes_max;
END $$;

-- Moves rows from the outbox to the mirror. An element of `done` has `xid` and `id` of a row, `error`
-- if the row can never be enqueued, and `name` if the job's id belongs to another job. A worker may
-- have begun a job already; then its row in the mirror gets the job.
CREATE FUNCTION fairlane_outbox_move(shard smallint, done jsonb) RETURNS void LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    WITH gone AS (
        DELETE FROM fairlane_outbox o
        USING jsonb_to_recordset(done) AS moved(xid text, id bigint, error jsonb, name text)
        WHERE o.shard = fairlane_outbox_move.shard AND o.xid = moved.xid::xid8 AND o.id = moved.id
        RETURNING o.xid, o.id, o.job, o.created_at, moved.error, coalesce(
            moved.name, o.job->>'id', o.xid || '-' || o.id
        ) AS name
    ), first AS (
        SELECT DISTINCT ON (job->>'group', name) * FROM gone ORDER BY job->>'group', name, xid, id
    )
    INSERT INTO fairlane_mirror AS m (group_id, id, type, status, job, error, queued_at, ended_at)
    SELECT job->>'group', name, job->>'type', CASE WHEN error IS NULL THEN 'QUEUED' ELSE 'FAILED' END,
        job, error, created_at, CASE WHEN error IS NOT NULL THEN now() END
    FROM first ORDER BY xid, id
    ON CONFLICT (group_id, id) DO UPDATE SET job = EXCLUDED.job, queued_at = EXCLUDED.queued_at
    WHERE m.job IS NULL;
END $$;

-- Marks jobs as RUNNING under their leases. An element of `leases` has `group_id`, `id`, `type`,
-- `fence` and `attempts`; no job is named twice. Returns the jobs that do not run: with the result of
-- one that has succeeded, `ended` false if a younger lease has begun.
--
-- A job that failed in the database and is leased again was requeued, or its worker died before it
-- could settle it: it runs again.
--
-- The first lease of a job does not wait for the disk. If the server crashes and forgets it, the job
-- is QUEUED until its end is written. A later lease waits, because it must keep earlier ones, which
-- may be alive, from writing an end.
CREATE FUNCTION fairlane_mirror_begin(leases jsonb)
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
        JOIN fairlane_mirror m ON m.group_id = new.group_id AND m.id = new.id
        WHERE m.fence > 0
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
    LEFT JOIN fairlane_mirror m ON m.group_id = new.group_id AND m.id = new.id
    WHERE m.id IS NULL OR m.status = 'SUCCEEDED' OR m.fence > new.fence;
END $$;
