-- After the third failure people are told, once. The message goes on being tried.
return {
  doc = "a copy for the people on duty after the third failure",
  decide = function(msg, failure)
    if failure.failures == 3 then
      msg:copy { exchange = "-", key = "on-duty", priority = 9 }
    end
    msg.headers["last-failure"] = failure.reason
    return math.min(1000 * 2 ^ failure.failures, 600000)
  end,
}
