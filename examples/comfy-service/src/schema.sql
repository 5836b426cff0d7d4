-- The jobs of the service, as its customers see them. The queue decides their state; the trigger below
-- copies it from the mirror of the outbox.
CREATE TABLE comfy_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id text NOT NULL UNIQUE,
    group_id text NOT NULL,
    service_type text NOT NULL,
    parameters jsonb NOT NULL,
    execution_bundle jsonb NOT NULL,
    callback_url text,
    status text NOT NULL DEFAULT 'QUEUED'
        CHECK (status IN ('QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
    retry_count integer NOT NULL DEFAULT 0,
    result jsonb,
    error jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    -- The key by which a client repeats its request, and a hash of what it asked for.
    idempotency_key text,
    fingerprint text NOT NULL,
    -- The end that the callback reports.
    notified text,
    UNIQUE (group_id, idempotency_key)
);

-- Every end of a job, by a worker, by the reconciler or by the relay, is written to the mirror. The
-- same transaction writes it here and adds the callback to the outbox: neither exists without the
-- other. The callback of an end has one id, however often the end is written.
CREATE FUNCTION comfy_follow_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    followed comfy_jobs;
BEGIN
    UPDATE comfy_jobs SET
        status = CASE
            WHEN NEW.status = 'FAILED' AND NEW.error->>'code' = 'cancelled' THEN 'CANCELLED'
            ELSE NEW.status
        END,
        retry_count = greatest(NEW.attempts - 1, 0), result = NEW.result, error = NEW.error,
        started_at = NEW.started_at, ended_at = NEW.ended_at
    WHERE queue_id = NEW.id AND group_id = NEW.group_id
    RETURNING * INTO followed;
    IF NOT FOUND OR followed.ended_at IS NULL OR followed.callback_url IS NULL
        OR followed.notified IS NOT DISTINCT FROM followed.status
    THEN
        RETURN NULL;
    END IF;
    UPDATE comfy_jobs SET notified = status WHERE id = followed.id;
    INSERT INTO fairlane_outbox (job) VALUES (jsonb_build_object(
        'group', followed.group_id, 'type', 'comfyui-callback',
        'id', followed.queue_id || '-' || lower(followed.status),
        'payload', jsonb_build_object('url', followed.callback_url, 'body', jsonb_build_object(
            'type', 'job.' || lower(followed.status),
            'timestamp', to_char(followed.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'data', jsonb_build_object(
                'job_id', followed.id, 'status', lower(followed.status),
                'service_type', followed.service_type, 'retry_count', followed.retry_count,
                'result', followed.result, 'error', followed.error
            )
        ))
    ));
    RETURN NULL;
END $$;

CREATE TRIGGER comfy_follow_job AFTER INSERT OR UPDATE ON fairlane_mirror FOR EACH ROW
    WHEN (NEW.type = 'comfyui') EXECUTE FUNCTION comfy_follow_job();
