-- What a job waits for between its commit and its start, with fewer steps inside PostgreSQL.

-- PostgreSQL parses the expression of a check again for every statement that adds or changes a row.
-- Only the functions of this schema and the statements of the relay and the workers write the mirror.
ALTER TABLE fairlane_mirror
    DROP CONSTRAINT fairlane_mirror_check, DROP CONSTRAINT fairlane_mirror_status_check;

-- Takes a shard and reads its next rows, as before. Groups that are full come as an array, and the
-- setting is made by the declaration of a variable: neither needs a query of its own.
DROP FUNCTION fairlane_outbox_claim(integer, boolean, jsonb, integer, bigint);
CREATE FUNCTION fairlane_outbox_claim(
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
    candidate smallint := after;
    taken smallint;
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
    IF NOT in_order THEN
        RETURN QUERY
        SELECT taken, false, true, o.xid::text, o.id, o.job->>'group', (o.job - 'group')::text,
            o.created_at < now() - interval '1 minute' AND coalesce((
                SELECT m.ended_at IS NOT NULL FROM fairlane_mirror m
                WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
            ), false)
        FROM fairlane_outbox o
        WHERE o.shard = taken AND NOT o.job->>'group' = ANY(full_groups)
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
        ) AS picked, LATERAL (SELECT (picked.job - 'group')::text AS job OFFSET 0) AS body
    ) AS sized
    WHERE sized.bytes_before < bytes_max;
END $$;

-- Marks jobs as RUNNING under their leases, as before. The result is a list of those that are not:
-- with the end of a job, or with `ended` false where a younger lease has begun; null for none. A call
-- that returns a single value is planned faster than one that returns a table.
DROP FUNCTION fairlane_mirror_begin(jsonb);
CREATE FUNCTION fairlane_mirror_begin(leases jsonb) RETURNS jsonb LANGUAGE plpgsql
SET enable_bitmapscan = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    durable text := current_setting('synchronous_commit');
    commit_mode text := set_config('synchronous_commit', 'off', true);
    begun integer;
BEGIN
    -- A first lease does not wait for the disk: if a crash undoes it, the job is QUEUED as before. A
    -- later lease fences off the one before it, so its transaction commits as the server is set to.
    INSERT INTO fairlane_mirror AS m (group_id, id, type, status, fence, attempts, started_at)
    SELECT new.group_id, new.id, new.type, 'RUNNING', new.fence, new.attempts, now()
    FROM jsonb_to_recordset(leases)
        AS new(group_id text, id text, type text, fence bigint, attempts integer)
    ON CONFLICT (group_id, id) DO UPDATE
    SET status = 'RUNNING', fence = EXCLUDED.fence, attempts = EXCLUDED.attempts,
        started_at = now(), touched_at = now(), ended_at = NULL, error = NULL
    WHERE m.status <> 'SUCCEEDED' AND m.fence <= EXCLUDED.fence
        AND (m.fence = 0 OR set_config('synchronous_commit', durable, true) IS NOT NULL);
    GET DIAGNOSTICS begun = ROW_COUNT;
    IF begun = jsonb_array_length(leases) THEN
        RETURN NULL;
    END IF;
    -- A statement of its own, which sees what the first one has waited for.
    RETURN (
        SELECT jsonb_agg(jsonb_build_object('group_id', new.group_id, 'id', new.id,
            'ended', coalesce(m.status = 'SUCCEEDED', false), 'result', m.result::text))
        FROM jsonb_to_recordset(leases) AS new(group_id text, id text, fence bigint)
        LEFT JOIN LATERAL (
            SELECT * FROM fairlane_mirror o WHERE o.group_id = new.group_id AND o.id = new.id OFFSET 0
        ) AS m ON true
        WHERE m.id IS NULL OR m.status = 'SUCCEEDED' OR m.fence > new.fence
    );
END $$;
