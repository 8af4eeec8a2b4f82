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

describe('an administrative verb that is a new row', function()
  local broker, c, http, api

  setup(function()
    local rehearsal = Broker.binary():gsub('[^/]*$', 'rehearsal/tidemq')
    broker = Broker.start { binary = rehearsal, http = '127.0.0.1:0', args = { '--fsync', 'no' } }
    c, http = broker:connect(), Http.connect(broker)
    c:ok 'DECLARE queue jobs'
    api = http:expect(200, 'GET', '/api')
  end)
  teardown(function()
    http:close()
    c:close()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('is a verb of the line protocol, with its words and its errors', function()
    assert.equal('jobs', c:document 'REHEARSE jobs loud'.queue)
    assert.equal('jobs', c:document 'rehearse jobs'.queue)
    c:expect_answer('REHEARSE', 'ERR syntax REHEARSE needs <queue>: <queue> is missing')
    c:expect_answer('REHEARSE jobs x=1', "ERR syntax REHEARSE has no option 'x'; it takes: none")
    c:expect_answer('REHEARSE jobs soft', "ERR syntax REHEARSE has no flag 'soft'; it takes: loud")
    c:expect_answer('REHEARSE gone', "ERR not-found there is no queue 'gone' in vhost '/'")
    c:send 'HELP\r\n'
    assert.is_truthy(c:expect_data():find('\nREHEARSE <queue> [loud]\r\n', 1, true))
  end)

  it('is a request over HTTP, with the same parameters', function()
    local path = '/api/vhosts/%2F/queues/jobs/rehearse'
    assert.equal('jobs', http:expect(200, 'POST', path, { loud = true }).queue)
    local answer = http:request('POST', path, { loud = 'odd' })
    assert.equal(400, answer.status)
    assert.equal("loud: expected true or false, not 'odd'", answer.json.error.text)
  end)

  it('is a verb of the command line, with its options and its page of help', function()
    local function tidemq(words)
      return shell.run(('%s %s --url %s 2>&1'):format(broker.options.binary, words, broker:url()))
    end
    assert.matches('^queue +jobs\n', tidemq 'rehearse jobs --loud')
    assert.equal('jobs', json.decode((tidemq 'rehearse jobs loud --json')).queue)
    local output, status = tidemq 'rehearse'
    assert.equal('tidemq rehearse: QUEUE is missing; usage: tidemq rehearse [options] QUEUE; '
      .. 'see tidemq help rehearse\n', output)
    assert.equal(2, status)
    local page = shell.run(broker.options.binary .. ' help rehearse')
    assert.matches('^usage: tidemq rehearse %[options%] QUEUE\n\nrehearse an operation%.\n', page)
    assert.matches('\n  %-%-loud +so that all hear\n', page)
  end)

  it('is in the documents', function()
    local openapi = json.decode(docs.openapi(base, api))
    local operation = openapi.paths['/api/vhosts/{vhost}/queues/{queue}/rehearse'].post
    assert.equal('rehearse', operation.operationId)
    assert.same({ type = 'boolean', description = 'so that all hear' },
      operation.requestBody.content['application/json'].schema.properties.loud)
    local reference = docs.reference(api, { rehearse = true })
    assert.is_truthy(reference:find('| [rehearse](#rehearse) | `REHEARSE <queue> [loud]` | '
      .. '`POST /api/vhosts/{vhost}/queues/{queue}/rehearse` | `tidemq rehearse` | monitor | 404 |', 1, true))
  end)
end)
