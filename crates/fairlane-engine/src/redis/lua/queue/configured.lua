-- The index of groups that have settings of their own, with or without jobs. `set_group` alone writes
-- it, and a sweep never forgets such a group.

function queue.list_settings(cx, name, has_settings)
  local key = cx.prefix .. 'configured-groups'
  if has_settings then call('ZADD', key, 0, name) else call('ZREM', key, name) end
end

-- Whether a group has settings of its own, and whether it is in the index.
function queue.settings_listing(cx, group)
  return (group.limits or '1:0:0:0:0:0:0') ~= '1:0:0:0:0:0:0',
    call('ZSCORE', cx.prefix .. 'configured-groups', group.name) ~= false
end

function queue.check_settings(cx, group)
  local has_settings, is_listed = queue.settings_listing(cx, group)
  if has_settings == is_listed then return end
  queue.report(cx, has_settings and 'settings-unlisted' or 'no-settings', '', 0, 0, function()
    queue.list_settings(cx, group.name, has_settings)
  end)
end
