#include "script.h"

/* Redis must never build a reply above max_bytes, however large the bodies
 * are, so their lengths are asked for first; one body comes in any case, or a
 * reader would stand before a large one for ever. unpack has a limit of some
 * thousand values, hence the chunks. */
const struct slice script_read = SLICE(
	"local rows = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'WITHSCORES')\n"
	"local left = tonumber(ARGV[3])\n"
	"local wants_bodies = left > 0\n"
	"local has_tries = redis.call('EXISTS', KEYS[3]) == 1\n"
	"local bodies, tries = {}, {}\n"
	"local ids, total, done = {}, 0, 0\n"
	"for i = 1, #rows, 2 do\n"
	"  local id = rows[i]\n"
	"  if wants_bodies then\n"
	"    left = left - redis.call('HSTRLEN', KEYS[2], id)\n"
	"    if left < 1 and total > 0 then break end\n"
	"  end\n"
	"  total = total + 1\n"
	"  ids[total] = id\n"
	"end\n"
	"while done < total do\n"
	"  local last = math.min(done + 1000, total)\n"
	"  if wants_bodies then\n"
	"    bodies[#bodies + 1] = redis.call('HMGET', KEYS[2], unpack(ids, done + 1, "
	"last))\n"
	"  end\n"
	"  if has_tries then\n"
	"    tries[#tries + 1] = redis.call('HMGET', KEYS[3], unpack(ids, done + 1, "
	"last))\n"
	"  end\n"
	"  done = last\n"
	"end\n"
	"return { rows, bodies, tries }\n");

/* A member that left the set since its id was read is somebody's again, and
 * its body must stay. */
const struct slice script_remove =
	SLICE("local gone, count, done = {}, 0, 0\n"
	      "for i = 1, #ARGV do\n"
	      "  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then\n"
	      "    count = count + 1\n"
	      "    gone[count] = ARGV[i]\n"
	      "  end\n"
	      "end\n"
	      "while done < count do\n"
	      "  local last = math.min(done + 1000, count)\n"
	      "  redis.call('HDEL', KEYS[2], unpack(gone, done + 1, last))\n"
	      "  redis.call('HDEL', KEYS[3], unpack(gone, done + 1, last))\n"
	      "  redis.call('ZREM', KEYS[4], unpack(gone, done + 1, last))\n"
	      "  done = last\n"
	      "end\n"
	      "return count\n");

/* By score, so that a script that is sent twice removes nothing that is good. */
const struct slice script_trim = SLICE(
	"local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, "
	"ARGV[2])\n"
	"for i = 1, #old, 1000 do\n"
	"  redis.call('ZREM', KEYS[1], unpack(old, i, math.min(i + 999, #old)))\n"
	"end\n"
	"return #old\n");
