-- What comes from outside is signed with a secret that only the sender and we have.
local secret = tide.secret "webhook"
return {
  doc = "refuses what is not signed by the sender",
  match = { exchange = "webhooks" },
  publish = function(msg)
    local signature = tide.hex.encode(tide.hmac_sha256(secret, msg.payload))
    if not tide.equal(msg.headers.signature or "", signature) then
      return false, "the signature does not fit the payload"
    end
  end,
}
