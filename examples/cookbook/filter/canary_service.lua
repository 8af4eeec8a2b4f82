-- A share of the customers is served by the new service, the same ones each time.
return {
  doc = "sends some customers to the new service",
  options = { percent = { type = "integer", default = 5, min = 0, max = 100, doc = "share" } },
  match = { exchange = "payments" },
  publish = function(msg, opts)
    local customer = msg.headers.customer
    if customer and tide.hash(customer) % 100 < opts.percent then
      msg.exchange = "payments-next"
    end
  end,
}
