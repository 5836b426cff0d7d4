#!lua flags=allow-oom
-- settle: ends attempts. The current fence applies; the one settled last gets the same reply again.
-- Key: the partition.
-- Arguments: [1] time, then runs of equal settlements: group, padded fence, outcome (s f c r t l),
-- delay in µs, Retry-After in µs, jobs, whether notes follow (0 1), then per job its id and,
-- if so, its note.
-- Replies a letter per job: a applied, s stale, g gone.
local FIELDS = {
  'fence', 'sequence', 'backlog', 'classic', 'alpha', 'completed', 'max_retry_count', 'max_throttle_count',
  'completed_kept_max', 'stored_bytes', 'completed_retention_ms', 'failed_kept_max', 'failed_retention_ms',
  'succeeded_total', 'dead_total',
}

-- The verdict on a job that is not leased under this fence.
local function not_held(cx, group_name, id, fence)
  local run = call('HGET', queue.rows_key(cx, group_name), ':' .. id)
  if run then return sub(run, 2, 17) == fence and 'a' or 's' end
  return call('HEXISTS', queue.rows_key(cx, group_name), id) == 1 and 's' or 'g'
end

-- Counts ended leases with equal entries: `ended` in total, of which `plain` are plain successes with
-- this many bytes of payload.
local function count_run(cx, group, held, ended, plain, bytes, is_answer)
  queue.end_leases(cx, group, queue.type_state(cx, held.type), held, ended)
  if is_answer then cx.answers[held.type] = (cx.answers[held.type] or 0) + ended end
  if plain == 0 then return end
  queue.count_ends(cx, group, held.bulk, 'succeeded', plain, 0)
  queue.count_jobs(cx, held.type, -plain)
  if not held.files_bulk then queue.count_completed(cx, group, bytes) end
end

-- What equal entries need for plain successes: their run, and the chunk that files them.
local function prepare_plain(cx, held, fence)
  local bulk = held.bulk ~= '' and queue.bulk_state(cx, held.bulk)
  held.files_bulk, held.chunk = bulk, bulk and bulk.chunk or cx.completed
  held.done = 'C' .. fence .. cx.stamp .. ':' .. held.place .. ':' .. held.cost .. ':1:0:0:' .. held.worker .. ':'
end

-- Settles `jobs` equal settlements from argument `at` on, the first of which is number `first` of
-- the call. Most jobs have the entry of the job before them.
local function settle_run(cx, at, first, group_name, fence, outcome, delay_us, retry_after_us, jobs, stride)
  local arguments, names, entries, sets = cx.arguments, cx.names, cx.entries, cx.sets
  local is_answer, size, last, count, plain, bytes = outcome ~= 't' and outcome ~= 'l', 0, nil, 0, 0, 0
  local group, seen, held, payload_bytes, is_plain, chunk, filed, filed_names, done
  for number = first, first + jobs - 1 do
    local id, entry = arguments[at], entries[number]
    if entry ~= seen then
      seen, held, is_plain = entry, nil, false
      if entry then held, payload_bytes = queue.parse_hold(cx, entry) end
      if held and held.fence ~= fence then held = nil end
      if held and held ~= last then
        group = group or queue.group_state(cx, group_name)
        if last then count_run(cx, group, last, count, plain, bytes, is_answer) end
        last, count, plain, bytes = held, 0, 0, 0
      end
      if held and outcome == 's' and held.known == 'n' then
        if not held.done then prepare_plain(cx, held, fence) end
        is_plain, chunk, filed, done = stride == 1, held.chunk, #held.chunk, held.done
        filed_names = not held.files_bulk and names
      end
    end
    if is_plain then
      filed, plain, bytes = filed + 1, plain + 1, bytes + payload_bytes
      chunk[filed] = filed_names and filed_names[number] or id
      sets[size + 1], sets[size + 2] = ':' .. id, done
      size, count = size + 2, count + 1
    elseif held then
      sets[size + 1] = ':' .. id
      sets[size + 2] = queue.apply_outcome(cx, group, id, held, payload_bytes, fence, outcome,
        tonumber(delay_us), retry_after_us, stride == 2 and arguments[at + 1] or '')
      size, count = size + 2, count + 1
    else
      cx.verdicts[number], names[number] = not_held(cx, group_name, id, fence), ''
    end
    at = at + stride
  end
  if last then count_run(cx, group, last, count, plain, bytes, is_answer) end
  if size > 0 then call('HSET', queue.rows_key(cx, group_name), unpack(sets, 1, size)) end
end

-- Reads the entries of all settled jobs. The names of those that are not leased become empty later.
local function read_entries(cx)
  local arguments, names, count, at = cx.arguments, {}, 0, 2
  while arguments[at] do
    local part, stride = arguments[at] .. ':', 1 + arguments[at + 6]
    local next_at = at + 7 + arguments[at + 5] * stride
    for index = at + 7, next_at - 1, stride do
      count = count + 1
      names[count] = part .. arguments[index]
    end
    at = next_at
  end
  cx.names, cx.entries = names, count > 0 and call('HMGET', cx.prefix .. 'in-flight', unpack(names)) or {}
end

-- A letter per job. Those that are not among the verdicts were applied.
local function verdicts_text(cx, jobs)
  local verdicts = cx.verdicts
  if not next(verdicts) then return string.rep('a', jobs) end
  for number = 1, jobs do verdicts[number] = verdicts[number] or 'a' end
  return table.concat(verdicts)
end

function queue.ops.settle(cx)
  kernel.read_partition(cx, FIELDS)
  queue.begin_ending(cx)
  cx.stamp, cx.verdicts, cx.answers, cx.sets = format('%016d', cx.now), {}, {}, {}
  read_entries(cx)

  local at, first = 2, 1
  while cx.arguments[at] do
    local group, fence, outcome, delay_us, retry_after_us, jobs, notes = unpack(cx.arguments, at, at + 6)
    local stride = 1 + notes
    jobs = tonumber(jobs)
    settle_run(cx, at + 7, first, group, fence, outcome, delay_us, retry_after_us, jobs, stride)
    at, first = at + 7 + jobs * stride, first + jobs
  end
  for name in pairs(cx.answers) do queue.count_goodput(cx, queue.type_state(cx, name), cx.answers[name]) end
  if next(cx.batches_left) then
    call('HDEL', cx.prefix .. 'in-flight', unpack(cx.names))
    queue.leave_batches(cx)
  end
  queue.record_ended(cx)
  queue.wake_for_freed_seats(cx)
  queue.purge(cx)
  queue.write_all(cx)
  return verdicts_text(cx, first - 1)
end
