#!lua flags=allow-oom
-- report_progress: stores how far running attempts are, at the end of their entries in `in-flight`.
-- So a report ends with its lease; one of a lost lease is ignored.
-- Key: the partition.

function queue.ops.report_progress(cx, command)
  local names, holds = {}, {}
  for index, report in ipairs(command.reports) do names[index] = report.job.group .. ':' .. report.job.id end
  local entries = names[1] and call('HMGET', cx.prefix .. 'in-flight', unpack(names)) or {}
  for index, report in ipairs(command.reports) do
    local entry = entries[index]
    if entry and sub(entry, 1, 16) == format('%016d', report.fence) then
      holds[#holds + 1] = names[index]
      holds[#holds + 1] = string.gsub(entry, '@%d+/%d+$', '')
        .. '@' .. text(report.progress.done) .. '/' .. text(report.progress.total)
    end
  end
  if holds[1] then call('HSET', cx.prefix .. 'in-flight', unpack(holds)) end
  return {stored = #holds / 2}
end
