--- Why a Redis may refuse to write, and how to bring that about with redis-cli.
---@type table<string, { on: string, off: string }>
return {
  ['out of memory'] = { on = 'CONFIG SET maxmemory 1', off = 'CONFIG SET maxmemory 0' },
  ['a replica'] = { on = 'REPLICAOF 127.0.0.1 1', off = 'REPLICAOF NO ONE' },
  ['without its replicas'] = { on = 'CONFIG SET min-replicas-to-write 1', off = 'CONFIG SET min-replicas-to-write 0' },
  ['not to be written to by this user'] = { on = 'ACL SETUSER default -@write', off = 'ACL SETUSER default +@write' },
}
