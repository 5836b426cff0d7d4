#!lua flags=allow-oom
-- audit: rechecks suspects and, on request, repairs them in the same step. Also reads the pages of
-- the scan that finds suspects.
-- Key: the partition.
-- Arguments: [1] time, [2] 0 check, 1 repair, then per suspect its kind and name:
-- job group:id | group name | backlog group | type name | bulk group:name | lease padded
-- batch | whole ''
-- Or [2] page, [3] source, [4] name, [5] cursor, [6] count, then arguments of the source:
-- keys '' | rows group | in_flight '' | sorted key | list key | groups '' with names from
-- [7] | order place | parked '' | types '' | backlogs '' | chunks key | stored_bytes '' with
-- groups from [7]
-- Replies {suspects checked, whether the first is too large to count (0 1), {per finding: number of
-- the suspect, fault, detail, stored, counted, repaired (0 1)}}; to a page {next cursor or '', then
-- keys, or per job: name, letter of `locate_job`, number of its bulk action or '', bytes; for other
-- sources see `scan_groups`}.

-- The check of a kind of suspect.
local function check(kind)
  local checks = {
    job = queue.check_job, group = queue.check_group, backlog = queue.check_backlog, type = queue.check_type,
    bulk = queue.check_bulk, lease = queue.check_lease, whole = queue.check_queue,
  }
  return checks[kind]
end

-- The function that reads a page of a source.
local function page(source)
  local pages = {
    keys = queue.page_keys, rows = queue.page_rows, in_flight = queue.page_in_flight,
    sorted = queue.page_sorted, list = queue.page_list, groups = queue.page_groups, order = queue.page_order,
    parked = queue.page_parked, types = queue.page_types, backlogs = queue.page_backlogs,
    chunks = queue.page_chunks, stored_bytes = queue.page_stored_bytes,
  }
  return pages[source]
end

function queue.ops.audit(cx)
  local mode, source, name, cursor, count = unpack(cx.arguments, 2, 6)
  queue.begin_audit(cx)
  if mode == 'page' then return page(source)(cx, name, cursor, tonumber(count)) end
  cx.mending = mode == '1'
  local read = cx.mending and kernel.read_partition or kernel.read_fields
  read(cx, {'fence', 'sequence', 'backlog', 'completed', 'stored_bytes', 'classic', 'alpha'})
  local looked_at, first_too_large = 0, 0
  for at = 3, #cx.arguments, 2 do
    cx.suspect = looked_at + 1
    check(cx.arguments[at])(cx, cx.arguments[at + 1])
    if queue.is_put_off(cx) then break end
    if cx.too_large then first_too_large = 1 end
    looked_at = cx.suspect
    if cx.spent >= AUDIT_STEP_ENTRIES then break end
  end
  queue.record_ended(cx)
  queue.write_all(cx)
  return {looked_at, first_too_large, cx.findings}
end
