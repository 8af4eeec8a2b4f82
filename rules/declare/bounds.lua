-- bounds: what queues, topics or exchanges have when DECLARE leaves it out, and the most that
-- they may have: of options that are counts or durations, of which 0 means no limit.

local UNITS <const> = { [""] = 1, ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }

-- What DECLARE gives, where that is not 0.
local GIVEN <const> = {
  ["ack-timeout"] = "60s", ["ack-timeout-max"] = "1d", ["delivery-limit"] = "20", ["death-limit"] = "100",
  retention = "1d",
}

-- A count, or milliseconds; nil for another text.
local function number_of(text)
  local number, unit = text:match("^(%d+%.?%d*)(%a*)$")
  return UNITS[unit] and tonumber(number) * UNITS[unit]
end

-- { "ttl=1d", … } as a table.
local function read(kind, list)
  local values = {}
  for _, pair in ipairs(list or {}) do
    local name, value = pair:match("^([^=]+)=(.+)$")
    if not name then error(("'%s' is not <option>=<value>"):format(pair)) end
    assert(tide.check_option(kind, name, value))
    values[name] = value
  end
  return values
end

return {
  doc = "defaults and upper bounds of options, for queues, topics or exchanges by name",
  -- match = { queue = "#" },

  options = {
    kind = { type = "string", default = "queue", choices = { "queue", "topic", "exchange" }, doc = "what it is for" },
    defaults = { type = "list", doc = "<option>=<value>: for those that DECLARE leaves out" },
    most = { type = "list", doc = "<option>=<value>: the most; what is more, or has no limit, gets it" },
    refuse = { type = "boolean", default = false, doc = "refuse what asks for more, instead" },
  },

  new = function(opts)
    local state = { defaults = read(opts.kind, opts.defaults), most = read(opts.kind, opts.most) }
    for name, value in pairs(state.most) do
      assert(number_of(value), ("%s=%s: a bound is a number or a duration"):format(name, value))
    end
    return state
  end,

  declare = function(what, opts, state)
    if what.kind ~= opts.kind then return end
    local options = what.options
    for name, value in pairs(state.defaults) do options[name] = options[name] or value end
    for name, most in pairs(state.most) do
      local has = number_of(options[name] or GIVEN[name] or "0")
      local is_over = not has or has == 0 or has > number_of(most)
      if is_over and options[name] and opts.refuse then
        return false, ("%s=%s: %s is the most here"):format(name, options[name], most)
      elseif is_over then
        options[name] = most
      end
    end
  end,
}
