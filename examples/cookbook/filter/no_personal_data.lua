-- Analysts get every sign-up, but not who it was.
return {
  doc = "a copy of each sign-up, without personal data",
  match = { exchange = "signups" },
  publish = function(msg)
    local signup = msg.json
    msg:copy {
      exchange = "analytics",
      payload = tide.json.encode {
        country = signup.country, plan = signup.plan,
        person = tide.hex.encode(tide.sha256(signup.email)),
      },
    }
  end,
}
