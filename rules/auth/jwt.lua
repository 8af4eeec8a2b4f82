-- jwt: a JSON Web Token as the password says who logs in (HS256, RFC 7519).
--
--   return tide.use("jwt", { options = { secret = "jwt", audience = "tidemq" } })
--
-- Claims: `sub` is the user's name and `exp` the end of the token; both are needed. `nbf`,
-- `aud` and `iss` are checked. `scope` has words: configure, write, read, monitor, admin.
-- `tenant` limits the first three to names that begin with the tenant and a dot.
--
-- A password that is no token is for other scripts, or for the table of users. A connection
-- outlives its token.

local function decode(part)
  local text = tide.base64.decode(part, "url")
  local value = text and tide.json.decode(text)
  return type(value) == "table" and value or nil
end

-- The claims of a token that is signed by the key; or nil and what is wrong.
local function verify(token, key)
  local signed, head, body, signature = token:match "^(([%w_-]+)%.([%w_-]+))%.([%w_-]*)$"
  local header = head and decode(head)
  -- Whoever believes the header lets in what nobody has signed ("none"). `crit` is what
  -- one must understand, and nothing is understood here.
  if not header or header.alg ~= "HS256" or header.crit ~= nil then
    return nil, "the token is not signed with HS256"
  end
  local given = tide.base64.decode(signature, "url")
  if not given or not tide.equal(given, tide.hmac_sha256(key, signed)) then
    return nil, "the signature of the token is wrong"
  end
  return decode(body), "the claims of the token are no JSON object"
end

local function has_audience(aud, audience)
  if type(aud) ~= "table" then
    return aud == audience
  end
  for _, one in ipairs(aud) do
    if one == audience then
      return true
    end
  end
  return false
end

-- What is wrong with the claims; nil: nothing.
local function problem(claims, opts)
  local now <const>, leeway <const> = tide.now() / 1000, opts.leeway / 1000
  if type(claims.exp) ~= "number" or now >= claims.exp + leeway then
    return "the token has expired"
  elseif claims.nbf ~= nil and (type(claims.nbf) ~= "number" or now < claims.nbf - leeway) then
    return "the token is not valid yet"
  elseif opts.audience ~= "" and not has_audience(claims.aud, opts.audience) then
    return "the token is for another audience"
  elseif opts.issuer and claims.iss ~= opts.issuer then
    return "the token is of another issuer"
  elseif type(claims.sub) ~= "string" then
    return "the token does not say who it is for (sub)"
  end
end

-- The user of these claims; or nil and what is wrong.
local function make_user(claims)
  local user, names = { name = claims.sub, tags = {} }, ".*"
  if claims.tenant ~= nil then
    -- It becomes part of a pattern.
    if type(claims.tenant) ~= "string" or not claims.tenant:find "^[%w_-]+$" then
      return nil, "the tenant of the token is no name"
    end
    names = "^" .. claims.tenant .. "[.]"
  end
  for word in tostring(claims.scope or ""):gmatch "%S+" do
    if word == "configure" or word == "write" or word == "read" then
      user[word] = names
    elseif word == "monitor" or word == "admin" then
      user.tags[#user.tags + 1] = word
    end
  end
  return user
end

return {
  doc = "a JSON Web Token (HS256) as the password",
  active = false,
  options = {
    secret = { default = "jwt", doc = "its file in --secrets: 32 random bytes or more, known to who signs" },
    audience = { default = "tidemq", doc = "that the token is for; empty: any" },
    issuer = { doc = "of the token, https://login.example.com; by default any" },
    leeway = { type = "duration", default = "30s", doc = "by which clocks may differ" },
  },

  new = function(opts)
    local key = tide.secret(opts.secret)
    assert(#key >= 16, "the secret '" .. opts.secret .. "' is too short to sign with")
    return { key = key }
  end,

  authenticate = function(login, opts, state)
    local token = login.password
    if not token or not token:find "^eyJ[%w_-]*%.[%w_-]+%.[%w_-]*$" then
      return nil
    end
    local claims, why = verify(token, state.key)
    why = claims and problem(claims, opts) or not claims and why
    if why then
      return false, why
    elseif login.user and login.user ~= claims.sub then
      return false, "the token is for another user"
    end
    local user, wrong = make_user(claims)
    if not user then
      return false, wrong
    end
    return user
  end,
}
