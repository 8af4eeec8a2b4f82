#include "redis_script.h"

/* Redis must never build a reply above max_bytes, however large the bodies are;
 * one body comes in any case, or a reader would stand before a large one for ever.
 * So bodies are read a few at a time, as many as may fit by the largest of those
 * before. Where a large one follows many small ones, 16 large ones are read at most
 * and those beyond max_bytes dropped again. (To ask for the length of each first
 * costs half as much as all the rest.) unpack has a limit of some thousand values,
 * hence the chunks of tries. */
const struct slice redis_script_read = SLICE(
	"local rows = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'WITHSCORES')\n"
	"local left = tonumber(ARGV[3])\n"
	"local ids, bodies, tries = {}, {}, {}\n"
	"for i = 1, #rows, 2 do ids[(i + 1) / 2] = rows[i] end\n"
	"local total, count, step = 0, #ids, 1\n"
	"if left == 0 then total = count end\n"
	"while total < count and left > 0 do\n"
	"  local last, largest = math.min(total + step, count), 1\n"
	"  local chunk = redis.call('HMGET', KEYS[2], unpack(ids, total + 1, last))\n"
	"  for i = 1, last - total do\n"
	"    local size = chunk[i] and #chunk[i] or 0\n"
	"    left = left - size\n"
	"    if left < 1 and total + i > 1 then\n"
	"      for j = last - total, i, -1 do chunk[j] = nil end\n"
	"      last = total + i - 1\n"
	"      break\n"
	"    end\n"
	"    if size > largest then largest = size end\n"
	"  end\n"
	"  bodies[#bodies + 1] = chunk\n"
	"  total = last\n"
	"  step = math.min(2 * step, 16, math.max(1, math.floor(left / largest)))\n"
	"end\n"
	"if redis.call('EXISTS', KEYS[3]) == 1 then\n"
	"  local done = 0\n"
	"  while done < total do\n"
	"    local last = math.min(done + 1000, total)\n"
	"    tries[#tries + 1] = redis.call('HMGET', KEYS[3], unpack(ids, done + 1, "
	"last))\n"
	"    done = last\n"
	"  end\n"
	"end\n"
	"return { rows, bodies, tries }\n");

/* A member that left the set since its id was read is in use again, and its body
 * must stay. */
const struct slice redis_script_remove =
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
const struct slice redis_script_trim = SLICE(
	"local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, "
	"ARGV[2])\n"
	"for i = 1, #old, 1000 do\n"
	"  redis.call('ZREM', KEYS[1], unpack(old, i, math.min(i + 999, #old)))\n"
	"end\n"
	"return #old\n");
