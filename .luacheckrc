std = 'lua54'
max_line_length = 120
self = false

-- What the engine gives to every script; see docs/rules-reference.md.
files['rules'] = { read_globals = { 'tide' } }
files['lua'] = { read_globals = { 'tide' } }
files['examples/**/rules'] = { read_globals = { 'tide' } }
files['examples/cookbook'] = { read_globals = { 'tide' } }

-- The scripts that Redis runs.
files['core/store'] = { std = 'lua51', read_globals = { 'redis', 'KEYS', 'ARGV', 'bit', 'cmsgpack' } }
files['tests'] = { std = '+busted' }
files['**/*_spec.lua'] = { std = '+busted' }
files['.luacheckrc'] = { std = '+luacheckrc' }
