-- tide.msgpack, in the real engine; python3-msgpack has the last word.

local support = require "lua.support.engine"

describe("MessagePack in a script", function()
  local engine

  after_each(function()
    if engine then engine:close() end
    engine = nil
  end)

  -- What a filter with this body makes of the payload.
  local function open(body)
    if engine then engine:close() end
    local dir = support.make_dir {
      ["filter/a.lua"] = "return { match = {}, publish = function(msg)\n" .. body .. "\nend }",
    }
    engine = support.open { rules = dir }
    support.remove_dir(dir)
  end

  local function pass(payload)
    local result, message = engine:filter { exchange = "x", key = "k", payload = payload }
    return result and result.payload or nil, message
  end

  -- A hundred documents, each as JSON and as MessagePack in hexadecimal.
  local GENERATE <const> = [[
import json, msgpack, random
random.seed(14)
def scalar():
    return random.choice([None, True, False, "", "text", "\u00e4\u20ac", "x" * random.choice([31, 32, 255, 256]),
        random.choice([1, -1]) * random.randrange(1 << random.randrange(1, 63)), random.random() + 1e-9])
def value(depth):
    kind = random.randrange(4) if depth < 3 else 0
    if kind == 1: return [value(depth + 1) for _ in range(random.choice([0, 1, 3, 17]))]
    if kind == 2:
        names = sorted(random.sample(range(10, 99), random.choice([1, 3, 17])))
        return {"name %d" % n: value(depth + 1) for n in names}
    return scalar()
for i in range(100):
    doc = value(1 if i else 0)
    print(json.dumps(doc, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\t" + msgpack.packb(doc).hex())
]]

  it("is what others write and read", function()
    local python = assert(io.popen("PYTHONIOENCODING=utf-8 /usr/bin/python3 - <<'END'\n" .. GENERATE .. "END"))
    local documents = {}
    for line in python:lines() do
      local text, hex = line:match "^(.*)\t(%x+)$"
      local bytes = hex:gsub("..", function(digits) return string.char(tonumber(digits, 16)) end)
      documents[#documents + 1] = { json = text, bytes = bytes }
    end
    assert.is_true(python:close())
    assert.equal(100, #documents)
    open "msg.payload = tide.msgpack.encode(tide.json.decode(msg.payload, { null = true }))"
    for i, d in ipairs(documents) do assert.equal(d.bytes, pass(d.json), i) end
    open "msg.payload = tide.msgpack.encode(msg.json)"
    for i, d in ipairs(documents) do
      if d.json ~= "null" then assert.equal(d.bytes, pass(d.json), i) end
    end
    open "msg.json = tide.msgpack.decode(msg.payload, { null = true })"
    for i, d in ipairs(documents) do d.text = assert(pass(d.bytes), i .. d.json) end
    open "msg.payload = tide.msgpack.encode(tide.json.decode(msg.payload, { null = true }))"
    for i, d in ipairs(documents) do assert.equal(d.bytes, pass(d.text), i) end
  end)

  it("holds bytes, which JSON does not", function()
    open "msg.payload = tide.msgpack.encode { tide.msgpack.decode(msg.payload) }"
    assert.equal("\x91\xc4\x02\xff\xfe", pass "\xc4\x02\xff\xfe")
    assert.equal("\x91\xa2ab", pass "\xc4\x02ab")
  end)

  it("is refused with a sentence", function()
    open "return false, select(2, tide.msgpack.decode(msg.payload))"
    assert.matches("^the MessagePack has a value that is cut off at byte 1", select(2, pass "\x92\x01"))
    assert.matches("^the MessagePack has an extension type at byte 1", select(2, pass "\xd4\x01\x02"))
    assert.matches("^the MessagePack is nested deeper than 32 levels", select(2, pass(("\x91"):rep(33) .. "\xc0")))
    open "tide.msgpack.encode { a = { 1, print } }"
    assert.matches("a.2 is a function, which MessagePack cannot hold", select(2, pass ""))
    open "tide.msgpack.decode('\\1', { nil_ = true })"
    assert.matches("tide.msgpack.decode has no 'nil_'", select(2, pass ""))
  end)

  it("has null as nil, unless asked for", function()
    open "local t = tide.msgpack.decode(msg.payload) return false, tostring(t.a) .. tostring(t.b)"
    assert.matches("^nil1", select(2, pass "\x82\xa1a\xc0\xa1b\x01"))
  end)
end)
