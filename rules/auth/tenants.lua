-- tenants: each tenant has a vhost. The user "acme/bob" enters the vhost "acme" and no other.
--
--   return tide.use("tenants")
--
-- Passwords, and what a user may do in its vhost, are in the table of users: this only says
-- no. Users without a '/' in their name belong to nobody and are not limited.

local function tenant_of(name)
  return name:match "^([^/]+)/."
end

return {
  doc = "a user 'tenant/name' enters the vhost of its tenant alone",
  active = false,

  authenticate = function(login)
    local tenant = login.user and tenant_of(login.user)
    if tenant and login.vhost ~= tenant then
      return false, ("users of '%s' enter the vhost '%s' alone"):format(tenant, tenant)
    end
  end,

  -- A script before this one may have let the user in.
  authorize = function(user, _, object)
    local tenant = tenant_of(user.name)
    if tenant and object.vhost ~= tenant then
      return false, ("users of '%s' have the vhost '%s' alone"):format(tenant, tenant)
    end
  end,
}
