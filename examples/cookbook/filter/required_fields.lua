-- An order without what the workers need never reaches them.
return {
  doc = "an order has a customer, a total and at least one item",
  match = { exchange = "orders" },
  publish = function(msg)
    local order = msg.json
    if type(order) ~= "table" then
      return false, "an order is a JSON object"
    elseif type(order.customer) ~= "string" or type(order.total) ~= "number" then
      return false, "an order has 'customer', a text, and 'total', a number"
    elseif not order.items or #order.items == 0 then
      return false, "an order has at least one of 'items'"
    end
  end,
}
