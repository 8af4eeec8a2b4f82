-- A document that is saved ten times in a minute needs to be indexed once.
return {
  doc = "one message for each document and 30 seconds; it comes at their end",
  match = { exchange = "documents", key = "document.saved" },
  publish = function(msg)
    if not tide.shared.add("debounce " .. msg.headers.document, true, "30s") then
      return false, "this document will be indexed soon anyway"
    end
    msg.delay = "30s"
  end,
}
