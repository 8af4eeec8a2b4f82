-- What docs/redis.md says of a record batch: its script reads its example. (That brokers
-- write the example so is in tests/unit/log/test_record.c.)
local shell = require 'support.shell'

local section = shell.read_file('docs/redis.md'):match '\n## A record batch\n(.-)\n## '

describe('docs/redis.md', function()
  it('has a script that reads the batch of its example', function()
    local dir = shell.make_dir 'redis-doc'
    finally(function() shell.run('rm -rf ' .. shell.quote(dir)) end)
    local bytes = {}
    for line in section:match '\n```\n(01 .-)\n```':gmatch '[^\n]+' do
      for digits in line:match '^(.-)   ':gmatch '%x%x' do
        bytes[#bytes + 1] = string.char(tonumber(digits, 16))
      end
    end
    shell.write_file(dir .. '/batch', table.concat(bytes) .. '\n')
    shell.write_file(dir .. '/batch.py', section:match '\n```python\n(.-)\n```')
    local output, status = shell.run(('python3 %s <%s'):format(shell.quote(dir .. '/batch.py'),
      shell.quote(dir .. '/batch')))
    assert.equal(0, status)
    assert.equal(section:match 'it prints:\n\n```\n(.-)```', output)
  end)
end)
