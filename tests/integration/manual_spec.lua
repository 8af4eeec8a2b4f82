-- What is made from `tidemq help`: man pages, completion for bash, the configuration of the service.
local Broker = require 'support.broker'
local needs = require 'support.needs'
local shell = require 'support.shell'
local verbs = require 'support.verbs'
local wait = require 'support.wait'

local binary = Broker.binary()
local quote = shell.quote

-- The binary is asked once for each page.
local pages = {}
local function help(verb)
  pages[verb] = pages[verb] or shell.run(('%s help %s'):format(quote(binary), verb))
  return pages[verb]
end

-- Names of options that a page of the help lists.
local function options_of(page)
  local names = {}
  for name in page:gmatch '\n  %-%-([%l%d-]+)' do names[#names + 1] = name end
  return names
end

local all_verbs = {}
for verb in help '':gmatch '\n  ([%l-]+) +%l' do all_verbs[#all_verbs + 1] = verb end

describe('a man page', function()
  local function page_of(verb)
    local page, status = shell.run(('printf %%s %s | awk -v verb=%s -v version=1 -v date=2026-11-23 %s')
      :format(quote(help(verb)), verb, '-f tools/man_page.awk'))
    assert.equal(0, status, page)
    return page
  end

  it('is there for each verb, with each of its options', function()
    assert.is_true(#all_verbs > 25, 'too few verbs')
    for _, verb in ipairs(all_verbs) do
      local page = page_of(verb)
      local _, options = page:gsub('\n%.BI? \\%-\\%-', '')
      local names = options_of(help(verb))
      assert.equal(#names, options, verb)
      for _, name in ipairs(names) do
        local escaped = ('\\-\\-' .. name:gsub('-', '\\-')):gsub('%W', '%%%0')
        assert.matches('\n%.BI? ' .. escaped .. '%f[ \n]', page, nil, verb)
      end
      assert.equal(not help(verb):find '\nexamples:\n', not page:find '\n%.SH EXAMPLES\n', verb)
      assert.matches('\n%.SH EXIT STATUS\n', page, nil, verb)
    end
  end)

  it('is of options that the parser knows', function()
    for _, verb in ipairs(all_verbs) do
      -- --help is the last one of each table.
      local page, status = shell.run(('%s %s --help'):format(quote(binary), verb))
      assert.equal(0, status, verb)
      assert.equal(help(verb), page)
    end
  end)

  it('has defaults, forms, and signs as they are typed', function()
    local page = page_of 'get'
    assert.is_truthy(page:find('.BI \\-\\-max " N"\n1-1000: how many at most.\nDefault:\n.BR "1" .\n', 1, true), page)
    assert.is_truthy(page:find('.BR "%k %p\\en" .\n', 1, true), page)
    assert.is_truthy(page:find('.br\n.B tidemq get\n[options] \\-\\-group GROUP TOPIC\n', 1, true), page)
    assert.is_truthy(page_of 'bind':find("\ntidemq bind jobs orders \\(aqorders.*.paid\\(aq\n", 1, true))
  end)

  it('is not made of help that has another form', function()
    local _, status = shell.run("{ echo 'usage: tidemq x [options]'; echo; echo 'do x.'; }"
      .. " | awk -v verb=x -f tools/man_page.awk 2>&1")
    assert.equal(1, status)
  end)
end)

describe('the examples of the help', function()
  it('are right', function()
    local broker = Broker.start { args = { '--fsync', 'no' } }
    local dir = shell.make_dir 'tidemq-examples'
    shell.write_file(dir .. '/jobs.txt', 'one\ntwo\n')
    shell.write_file(dir .. '/report.sh', '#!/bin/sh\n')
    shell.write_file(dir .. '/tidemq.lua', 'return {}\n')
    assert(os.execute(('mkdir %s/bin; ln -s %s %s/bin/tidemq'):format(dir, quote(binary), dir)))
    os.execute(('chmod +x %s/report.sh; cp -r %s %s/rules; cp -r %s/rules %s/rules.next')
      :format(dir, quote(shell.shipped_rules()), dir, dir, dir))
    -- What they speak of is not all there: a right example may be refused by the broker, and is
    -- never wrong usage.
    local c = broker:connect()
    local function restore_world()
      for _, thing in ipairs { 'queue jobs', 'queue dead', 'topic events partitions=4', 'exchange orders topic' } do
        c:request('DECLARE ' .. thing)
      end
      c:request 'BIND jobs orders orders.#'
      c:request('PUB - jobs', 'x')
      c:request('PUB - events', 'x')
    end
    local count = 0
    for _, verb in ipairs(all_verbs) do
      local examples = help(verb):match '\nexamples:\n(.-\n)\n' or ''
      for line in examples:gmatch '  (.-)\n' do
        count = count + 1
        assert.matches('^tidemq ' .. verb:gsub('%W', '%%%0') .. '%f[%W]', line)
        line = line:gsub('/etc/tidemq/', '')
        -- A server would serve, a store is another one's, and a trace waits for its end.
        local own = (verb == 'serve' or verb == 'check-store' or verb == 'trace') and ' --help >/dev/null' or ''
        -- Not once an example has made a user: then who has not logged in is refused.
        pcall(restore_world)
        local output, status = shell.run(('export PATH=%s/bin:$PATH TIDEMQ_URL=%s; cd %s;'
          .. ' echo secret 2>/dev/null | timeout %d sh -c %s 2>&1')
          :format(dir, quote(broker:url()), dir, wait.limit(30), quote(line .. own)))
        assert.is_true(status < 2, line .. '\n' .. output)
      end
    end
    assert.is_true(count > 25)
    os.execute('rm -rf ' .. quote(dir))
    broker:destroy()
  end)
end)

describe('the configuration of the service', function()
  local text = shell.run(quote(binary)
    .. ' help serve | awk -v data=@DATA@ -v rules=@RULES@ -f tools/config_file.awk')

  it('has each option, at its default', function()
    local expected = {}
    for _, name in ipairs(options_of(help 'serve')) do
      if name ~= 'help' and name ~= 'config' then expected[#expected + 1] = name end
    end
    local found = {}
    for name in text:gmatch '\n  [- ]*%[?"?([%l%d-]+)"?%]? = ' do found[#found + 1] = name end
    assert.same(expected, found)
    assert.matches('\n  %-%- listen = "127.0.0.1:7310",\n', text)
    assert.matches('\n  %-%- %["max%-connections"%] = 20000,\n', text)
    assert.matches('\n  %-%- anonymous = false,\n', text)
    assert.matches('\n  data = "@DATA@",\n', text)
  end)

  it('is taken as it is, and with all defaults given', function()
    -- Without what has no default, and with free ports.
    local all = text:gsub('\n  %-%- (%S+ = [^\n]*,)', '\n  %1')
      :gsub('\n  [^\n]* = "[%u_]+",', ''):gsub('"127.0.0.1:%d+"', '"127.0.0.1:0"')
    assert.matches('\n  anonymous = false,\n', all)
    for _, version in ipairs { text, all } do
      local dir = shell.make_dir 'tidemq-config'
      version = version:gsub('@DATA@', dir):gsub('@RULES@', shell.shipped_rules())
      local broker = Broker.start { config = version }
      broker:connect():close()
      broker:expect_clean_stop()
      broker:destroy()
      os.execute('rm -rf ' .. quote(dir))
    end
  end)
end)

describe('completion for bash', function()
  local broker, dir

  setup(function()
    broker = Broker.start { args = { '--fsync', 'no' } }
    dir = shell.make_dir 'tidemq-completion'
    os.execute(('ln -s %s %s/tidemq'):format(quote(binary), quote(dir)))
    for _, words in ipairs { { 'queue', 'jobs' }, { 'queue', 'jobs:late' }, { 'topic', 'journal' },
      { 'exchange', 'orders', 'topic' }, { 'queue', '$(touch${IFS}owned)' } } do
      verbs.tide(broker, 'declare', table.unpack(words))
    end
  end)
  teardown(function()
    broker:destroy()
    os.execute('rm -rf ' .. quote(dir))
  end)

  -- What may follow a line, in the order of the alphabet.
  local function complete(line, url)
    local script = ('export PATH=%s:$PATH TIDEMQ_URL=%s; cd %s; . %s/packaging/completion.bash; COMP_LINE=%s;'
      .. ' COMP_POINT=${#COMP_LINE}; _tidemq; printf "%%s\\n" "${COMPREPLY[@]}" | LC_ALL=C sort -u | tr "\\n" " "')
      :format(quote(dir), quote(url or broker:url()), quote(dir), quote(shell.line 'pwd'), quote(line))
    return (shell.run('bash -c ' .. quote(script)):gsub(' $', ''))
  end

  it('knows verbs and options', function()
    assert.equal('declare delete drain', complete 'tidemq d')
    assert.equal('redrive remove request reschedule resume rules', complete 'tidemq help r')
    assert.equal('--if-empty --if-unused', complete 'tidemq delete --if')
    assert.equal('', complete 'tidemq dance ')
    for _, verb in ipairs(all_verbs) do
      local found = ' ' .. complete('tidemq ' .. verb .. ' --') .. ' '
      for _, name in ipairs(options_of(help(verb))) do
        assert.is_truthy(found:find(' --' .. name .. ' ', 1, true), verb .. ' --' .. name)
      end
    end
  end)

  it('knows the words of a verb, at their place', function()
    assert.equal('exchange queue topic vhost', complete 'tidemq declare ')
    assert.equal('access declare login retry', complete 'tidemq rules simulate ')
    assert.equal('drop promote status', complete 'tidemq rules shadow ')
    assert.equal('both in out', complete 'tidemq pause jobs ')
    assert.equal('add', complete 'tidemq user --tags admin a')
    assert.equal('auto manual', complete 'tidemq sub --ack ')
    assert.equal('always everysec no', complete 'tidemq serve --fsync ')
  end)

  it('asks the broker for names', function()
    assert.equal('jobs jobs:late journal', complete 'tidemq sub jo')
    assert.equal('jobs jobs:late', complete 'tidemq delete queue jo')
    assert.equal('journal', complete 'tidemq delete topic ')
    assert.equal('journal', complete 'tidemq get --group g jou')
    assert.equal('orders', complete 'tidemq bind jobs ')
    assert.equal('jobs jobs:late', complete 'tidemq get jobs jo')
    -- bash cuts words at colons.
    assert.equal('late', complete 'tidemq kick jobs:')
    assert.equal('jobs jobs:late', complete(('tidemq kick --url %s jo'):format(broker:url()), 'tide://127.0.0.1:1/'))
  end)

  it('says nothing when no broker answers, and runs nothing of a name', function()
    assert.equal('', complete('tidemq sub jo', 'tide://127.0.0.1:1/'))
    assert.equal("'$(touch${IFS}owned)'", complete 'tidemq kick $')
    assert.is_nil(shell.read_file(dir .. '/owned'))
  end)

  -- What the completion of another shell offers for a line, likewise.
  local in_shell = {
    zsh = [==[zsh -fc 'compadd() { shift; print -rl -- "$@" }; _files() { print -rl -- ${=1:+nFOLDERS} nFILES };
      line=$1; words=(${(z)line}); [[ $line = *\  ]] && words+=(""); CURRENT=$#words; PREFIX=$words[-1];
      . $2/packaging/completion.zsh' zsh]==],
    fish = [[fish --no-config -c 'function __fish_complete_directories; echo nFOLDERS; end;
      function __fish_complete_path; echo nFILES; end;
      source $argv[2]/packaging/completion.fish; complete -C $argv[1] | string replace -r "\t.*" ""']],
  }

  for name, command in pairs(in_shell) do
    needs.client(it, 'command -v ' .. name)('is the same in ' .. name, function()
      local function offered(line)
        local found = {}
        local text = shell.run(('export PATH=%s:$PATH TIDEMQ_URL=%s TIDEMQ_COMPLETION=$PWD/packaging/completion.bash; '
          .. '%s %s "$PWD" 2>&1 </dev/null'):format(quote(dir), quote(broker:url()), command, quote(line)))
        for word in text:gmatch '[^\n]+' do found[#found + 1] = word end
        table.sort(found)
        return table.concat(found, ' ')
      end
      for _, line in ipairs { 'tidemq d', 'tidemq help r', 'tidemq delete --if', 'tidemq dance ', 'tidemq declare ',
        'tidemq rules simulate ', 'tidemq user --tags admin a', 'tidemq sub --ack ', 'tidemq sub jo',
        'tidemq bind jobs ' } do
        assert.equal(complete(line), offered(line), line)
      end
      assert.equal('jobs:late', offered 'tidemq kick jobs:')
      assert.matches('touch', offered 'tidemq kick ')
      assert.is_nil(shell.read_file(dir .. '/owned'))
      assert.matches('FOLDERS', offered 'tidemq check n')
      assert.matches('FILES', offered 'tidemq serve --config n')
    end)
  end

  it('takes files and directories where they stand', function()
    assert.is_true(os.execute(('mkdir %s/next; touch %s/nice.lua'):format(quote(dir), quote(dir))))
    assert.equal('next', complete 'tidemq check n')
    assert.equal('next nice.lua', complete 'tidemq serve --config n')
    assert.equal('next', complete 'tidemq rules replay n')
  end)
end)

describe('the Debian package', function()
  it('has the version of the Makefile, and is built with the libraries of tools/deps.sh', function()
    local control, rest = shell.read_file 'packaging/debian/control', shell.read_file 'tools/deps.sh'
    local build_depends = control:match 'Build%-Depends:(.-)\nStandards'
    for name in rest:gmatch '\n([%w.+-]+%-dev) +build%f[\n]' do
      if name ~= 'libc6-dev' then
        local pattern = ' ' .. name:gsub('%p', '%%%0') .. '%f[^%w.+-]'
        assert.matches(pattern, build_depends, nil, name .. ' is not in packaging/debian/control')
      end
    end
    assert.equal(shell.read_file 'Makefile':match '\nVERSION := (%S+)',
      shell.read_file 'packaging/debian/changelog':match '^tidemq %((.-)%-')
  end)
end)
