-- Counts of stored bytes: payloads and notes of jobs, payloads and summaries of bulk actions. Added
-- in the step that stores them, subtracted in the step that removes them.

-- The contents of a job's row: cost, number of its bulk action or '', whether it was cancelled in a
-- list, and the bytes of its payload.
function queue.read_row(row)
  local cancelled = byte(row, 1) == 88
  local cost, number, tail = match(row, '^%d:[^:]+:(%d*):(%d*)()[:+]', cancelled and 12 or 11)
  local size = tail and #row - tail - (byte(row, tail) == 43 and TRACE_BYTES or 0)
  return cost == '' and 1 or tonumber(cost), number, cancelled, size
end

-- Bytes of a job with this row and run (false: none).
function queue.job_bytes(row, run)
  local _, _, _, size = queue.read_row(row)
  local note_at = run and match(run, '^:%d:[^:]+:%d+:%d+:%d+:%d+:[^:]*:()', 34)
  return size + (note_at and #run - note_at + 1 or 0)
end

function queue.add_bytes(cx, group, bytes)
  group.stored_bytes, cx.partition.stored_bytes = group.stored_bytes + bytes,
    cx.partition.stored_bytes + bytes
end

-- Subtracts removed bytes of a group that may not have been read; `write_all` writes
-- it once per group.
function queue.subtract_bytes(cx, group_name, bytes)
  cx.partition.stored_bytes = cx.partition.stored_bytes - bytes
  cx.bytes_removed[group_name] = (cx.bytes_removed[group_name] or 0) + bytes
end
