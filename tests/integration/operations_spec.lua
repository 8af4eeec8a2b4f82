-- The table of operations (core/ops): the documents that are made of it, and what a new row costs.
-- `make docs` runs this with UPDATE=1, which writes the documents.
local Broker = require 'support.broker'
local Http = require 'support.http'
local docs = dofile 'tools/operation_docs.lua'
local json = require 'dkjson'
local shell = require 'support.shell'

local base = json.decode(shell.read_file 'tools/openapi_base.json')

local function commands_of(binary)
  local commands = {}
  for verb in shell.run(binary .. ' help 2>&1'):gmatch '\n  ([a-z-]+) ' do commands[verb] = true end
  return commands
end

local function compare(path, text)
  if os.getenv 'UPDATE' then shell.write_file(path, text) end
  assert.is_true(shell.read_file(path) == text, path .. ' is not what `make docs` makes')
end

describe('the table of operations', function()
  it('is what docs/openapi.json and docs/operations-reference.md say', function()
    local broker = Broker.start { http = '127.0.0.1:0' }
    local http = Http.connect(broker)
    local api = http:expect(200, 'GET', '/api')
    compare('docs/openapi.json', docs.openapi(base, api))
    compare('docs/operations-reference.md', docs.reference(api, commands_of(Broker.binary())))
    http:close()
    broker:expect_clean_stop()
    broker:destroy()
  end)
end)
