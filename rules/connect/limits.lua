-- limits: bounds each connection, and may give each tenant a vhost of its own.

return {
  doc = "limit each connection; a user's tenant may name its vhost",
  options = {
    publish_rate = { type = "integer", default = 0, min = 0, doc = "messages a second; 0: no limit" },
    publish_bytes = { type = "integer", default = 0, min = 0, doc = "bytes of payloads a second; 0: no limit" },
    max_channels = { type = "integer", default = 0, min = 0, doc = "0: no limit" },
    tenant = { default = "", doc = "a Lua pattern: what it captures of the user's name is the vhost; empty: as asked" },
    tls = { type = "boolean", default = false, doc = "refuse connections from elsewhere without TLS" },
  },

  connect = function(client, opts)
    if opts.tls and not client.is_tls and not client.is_local then
      return false, "this broker wants TLS"
    end
    local tenant = opts.tenant ~= "" and (client.user or ""):match(opts.tenant) or nil
    return {
      vhost = tenant,
      limits = {
        publish_rate = opts.publish_rate,
        publish_bytes = opts.publish_bytes,
        max_channels = opts.max_channels,
      },
    }
  end,
}
