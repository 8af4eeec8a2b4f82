-- A job that nobody finished in time needs another look than one that was refused.
return {
  doc = "tried three times; then to a queue by what went wrong",
  decide = function(_, failure)
    if failure.failures < 3 then return 5000 end
    if failure.reason == "timeout" then return tide.dead_letter("-", "too-slow") end
    return tide.dead_letter("-", "refused")
  end,
}
