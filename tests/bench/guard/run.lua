--- run.lua BUILD [UPDATE]: count the instructions of BUILD/hot_paths, section by
--- section, and compare with expected.txt beside this file.
---
--- A section that is dearer by more than TOLERANCE fails. With UPDATE (1) the file
--- is written anew. The profile of each section stays in BUILD/counts, for
--- callgrind_annotate. Prints `tests: N passed, N failed` last.
local build, update = arg[1], arg[2] == '1'

local TOLERANCE, TOLERANCE_ELSEWHERE = 0.05, 0.15
local here = arg[0]:match '^(.*)/' or '.'
local callgrind = dofile(here .. '/callgrind.lua')
local expected_path = here .. '/expected.txt'
local counts = build .. '/counts'

--- What the figures depend on besides the code.
local PLATFORM = { 'machine', 'compiler', 'libc', 'lua' }

local function read_expected()
  local expected = { platform = {}, order = {}, figures = {} }
  for _, line in ipairs(callgrind.lines_of(expected_path)) do
    local key, value = line:match '^# (%l+): (.*)$'
    local name, figure = line:match '^([%l_]+)%s+([%d.]+)$'
    if key then
      expected.platform[key] = value
    elseif name then
      expected.figures[name] = tonumber(figure)
      table.insert(expected.order, name)
    end
  end
  return expected
end

local function write_expected(measured)
  local out = assert(io.open(expected_path, 'w'))
  out:write('# Instructions per operation. Written by `make guard UPDATE=1`; see docs/performance.md.\n')
  for _, key in ipairs(PLATFORM) do
    out:write(('# %s: %s\n'):format(key, measured.platform[key]))
  end
  for _, name in ipairs(measured.order) do
    out:write(('%-18s %10.1f\n'):format(name, measured.figures[name]))
  end
  out:close()
  print('guard: wrote ' .. expected_path)
end

--- Architecture and compiler, without versions.
local function family(platform)
  return (platform.machine or '') .. ' ' .. (platform.compiler or ''):match '^%S*'
end

--- How far a figure may be off here; nil where the figures mean nothing.
local function tolerance(expected, measured)
  local others = {}
  for _, key in ipairs(PLATFORM) do
    local was, is = expected.platform[key] or 'unknown', measured.platform[key]
    if was ~= is then
      others[#others + 1] = ('%s is %s, the figures are of %s'):format(key, is, was)
    end
  end
  if #others == 0 then return TOLERANCE end
  print('guard: ' .. table.concat(others, '; '))
  if family(expected.platform) ~= family(measured.platform) then
    print('guard: those are not comparable: nothing is judged')
    return nil
  end
  print(('guard: so %d %% of difference are allowed'):format(TOLERANCE_ELSEWHERE * 100))
  return TOLERANCE_ELSEWHERE
end

--- What to say of a section, and whether it has failed.
local function judge(was, is, allowed)
  if not is then return 'is no longer measured', true end
  if not was then return 'is new', true end
  if is > was * (1 + allowed) then return 'DEARER', true end
  if is < was * (1 - allowed) then return 'cheaper', false end
  return '', false
end

local function cell(figure)
  return figure and ('%.1f'):format(figure) or '-'
end

local function compare(expected, measured, allowed)
  local passed, failed, cheaper = 0, 0, 0
  local names, seen = {}, {}
  for _, list in ipairs { measured.order, expected.order } do
    for _, name in ipairs(list) do
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  print(('%-18s %12s %12s %12s'):format('section', 'expected', 'measured', 'difference'))
  for _, name in ipairs(names) do
    local was, is = expected.figures[name], measured.figures[name]
    local verdict, is_bad = judge(was, is, allowed or math.huge)
    local difference = was and is and ('%+.1f %%'):format((is / was - 1) * 100) or '-'
    print((('%-18s %12s %12s %12s  %s'):format(name, cell(was), cell(is), difference, verdict):gsub('%s+$', '')))
    passed, failed = passed + (is_bad and 0 or 1), failed + (is_bad and 1 or 0)
    cheaper = cheaper + (verdict == 'cheaper' and 1 or 0)
  end
  return passed, failed, cheaper
end

--- Sections that may not be much dearer than others, whatever either costs: here and
--- now, so that neither libc nor compiler excuses it.
local RATIOS = {
  { 'publish_topic', 'publish_queue', 1.05, 'a publish by a remembered decision of a script and by none' },
}

local function compare_ratios(figures)
  local passed, failed = 0, 0
  for _, ratio in ipairs(RATIOS) do
    local one, other, most, what = table.unpack(ratio)
    local is = figures[one] / figures[other]
    print(('%s / %s = %.3f, at most %.2f: %s%s'):format(one, other, is, most, what, is > most and '  DEARER' or ''))
    if is > most then failed = failed + 1 else passed = passed + 1 end
  end
  return passed, failed
end

local measured = callgrind.measure(build .. '/hot_paths', counts)
if update then write_expected(measured) end
local expected = read_expected()
local allowed = tolerance(expected, measured)
local passed, failed, cheaper = compare(expected, measured, allowed)
if failed > 0 then
  print(('guard: find out why: callgrind_annotate --inclusive=yes %s/<section>'):format(counts))
  print('guard: if the price is right, run `make guard UPDATE=1` and commit expected.txt with the change')
elseif cheaper > 0 then
  print('guard: what is cheaper stays so with `make guard UPDATE=1`: commit expected.txt with the change')
end
if not allowed then passed, failed = 0, 0 end
local within, beyond = compare_ratios(measured.figures)
passed, failed = passed + within, failed + beyond
print(('tests: %d passed, %d failed'):format(passed, failed))
os.exit(failed == 0)
