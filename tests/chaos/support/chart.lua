--- Charts over time, one below the other, as one SVG.
local M = {}

local WIDTH, PANEL, GAP, LEFT, RIGHT, TOP = 900, 150, 52, 70, 40, 64
local COLOURS = { '#1f6fb4', '#d1662a', '#4a8f3c' }

--- A round number at or above `value`.
local function round_up(value)
  local unit = 10 ^ math.floor(math.log(math.max(value, 1e-9), 10))
  for _, factor in ipairs { 1, 2, 2.5, 5, 10 } do
    if factor * unit >= value then return factor * unit end
  end
end

local function text(x, y, words, anchor, size)
  return ('<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">%s</text>'):format(
    x, y, anchor or 'start', size or 12, words)
end

local function number(value) return (('%.2f'):format(value):gsub('%.?0+$', '')) end

local function minutes(seconds) return (('%.1f'):format(seconds / 60):gsub('%.0$', '')) end

local function path(series, times, scale_x, scale_y, colour)
  local points = {}
  for i, value in ipairs(series) do
    points[#points + 1] = ('%.1f,%.1f'):format(scale_x(times[i]), scale_y(value))
  end
  return ('<polyline fill="none" stroke="%s" stroke-width="1.4" points="%s"/>'):format(
    colour, table.concat(points, ' '))
end

---@class Panel
---@field title string with the unit
---@field lines { name: string, values: number[] }[] a value for each time

local function draw_panel(out, panel, times, top)
  local most = 0
  for _, line in ipairs(panel.lines) do
    for _, value in ipairs(line.values) do most = math.max(most, value) end
  end
  most = round_up(most * 1.05)
  local right, bottom, last = WIDTH - RIGHT, top + PANEL, times[#times]
  local function scale_x(t) return LEFT + (right - LEFT) * t / last end
  local function scale_y(value) return bottom - PANEL * value / most end
  out[#out + 1] = text(LEFT, top - 10, panel.title, 'start', 13)
  for i = 0, 4 do
    local y = scale_y(most * i / 4)
    out[#out + 1] = ('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/>'):format(
      LEFT, right, y, y, i == 0 and '#666' or '#ddd')
    out[#out + 1] = text(LEFT - 8, y + 4, number(most * i / 4), 'end')
  end
  for i = 0, 5 do
    out[#out + 1] = text(scale_x(last * i / 5), bottom + 17, minutes(last * i / 5) .. ' min', 'middle')
  end
  for i, line in ipairs(panel.lines) do
    out[#out + 1] = path(line.values, times, scale_x, scale_y, COLOURS[i])
    if #panel.lines > 1 then
      local x = right - 90 * (#panel.lines - i + 1) + 20
      out[#out + 1] = ('<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="3"/>'):format(
        x, x + 18, top - 14, top - 14, COLOURS[i])
      out[#out + 1] = text(x + 24, top - 10, line.name)
    end
  end
end

---@param title string
---@param subtitle string
---@param times number[] seconds
---@param panels Panel[]
---@return string svg
function M.draw(title, subtitle, times, panels)
  local height = TOP + #panels * (PANEL + GAP) + 10
  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" fill="#222">'):format(
      WIDTH, height),
    ('<rect width="%d" height="%d" fill="#fff"/>'):format(WIDTH, height),
    text(LEFT, 22, title, 'start', 16),
    text(LEFT, 40, subtitle, 'start', 12),
  }
  for i, panel in ipairs(panels) do draw_panel(out, panel, times, TOP + 10 + (i - 1) * (PANEL + GAP)) end
  out[#out + 1] = '</svg>\n'
  return table.concat(out, '\n')
end

return M
