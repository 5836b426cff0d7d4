#!lua flags=allow-oom
-- audit: rechecks suspects and, on request, repairs them in the same step. Also reads the pages of
-- the scan that finds suspects.
-- Key: the partition.
-- Arguments: [1] time, [2] the packed command. Or [2] page, [3] source, [4] name, [5] cursor,
-- [6] count, then arguments of the source:
-- keys '' | rows group | in_flight '' | sorted key | list key | groups '' with names from
-- [7] | order place | parked '' | large '' | types '' | backlogs '' | chunks key | stored_bytes ''
-- with groups from [7]
-- Replies to a page {next cursor or '', then keys, or per job: name, letter of `locate_job`, number
-- of its bulk action or '', bytes; for other sources see `scan_groups`}.

local function check(cx, suspect)
  if suspect == 'Queue' then return queue.check_queue(cx) end
  local checks = {
    Job = queue.check_job, Group = queue.check_group, Backlog = queue.check_backlog, Type = queue.check_type,
    Bulk = queue.check_bulk, Lease = queue.check_lease,
  }
  local kind, name = next(suspect)
  checks[kind](cx, name)
end

-- The function that reads a page of a source.
local function page(source)
  local pages = {
    keys = queue.page_keys, rows = queue.page_rows, in_flight = queue.page_in_flight,
    sorted = queue.page_sorted, list = queue.page_list, groups = queue.page_groups, order = queue.page_order,
    parked = queue.page_parked, large = queue.page_large, types = queue.page_types, backlogs = queue.page_backlogs,
    chunks = queue.page_chunks, stored_bytes = queue.page_stored_bytes,
  }
  return pages[source]
end

local function audit(cx, command)
  cx.mending = command.repair
  local read = cx.mending and kernel.read_partition or kernel.read_fields
  read(cx, {'fence', 'sequence', 'backlog', 'completed', 'stored_bytes', 'classic', 'alpha', 'indexed'})
  local looked_at, first_too_large = 0, false
  for index, suspect in ipairs(command.suspects) do
    cx.suspect_index, cx.suspect = index, suspect
    check(cx, suspect)
    if queue.is_put_off(cx) then break end
    if cx.too_large then first_too_large = true end
    looked_at = index
    if cx.spent >= AUDIT_STEP_ENTRIES then break end
  end
  queue.record_ended(cx)
  queue.write_all(cx)
  return {looked_at = looked_at, too_large = first_too_large, findings = cx.findings}
end

function queue.ops.audit(cx)
  local mode, source, name, cursor, count = unpack(cx.arguments, 2, 6)
  queue.begin_audit(cx)
  if mode == 'page' then return page(source)(cx, name, cursor, tonumber(count)) end
  return kernel.run_packed(audit, cx)
end
