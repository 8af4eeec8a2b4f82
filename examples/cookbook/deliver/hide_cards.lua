-- The card number is for the user `billing` alone.
return {
  doc = "removes the card number for others",
  match = { except = { user = "billing" } },
  deliver = function(msg)
    msg.headers.card = nil
  end,
}
