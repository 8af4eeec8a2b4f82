#include "../check.h"
#include "../cases.h"
#include "peer.h"

#include <ctype.h>

#define PAYLOAD_MAX 1000
#define STEPS_MAX 256

/* What is sent together, and the answer. */
struct step {
	unsigned line;
	size_t end; /* of it, in the input */
	size_t answer_end;
};

struct session_case {
	struct buf input, answer;
	struct step steps[STEPS_MAX];
	unsigned count;
};

static struct rig rig;

/* ---- the conversation ------------------------------------------------------------------ */

static void add_line(struct session_case *c, const char *line, unsigned number)
{
	struct buf *to = line[0] == '>' ? &c->input : &c->answer;
	struct step *last = c->count ? &c->steps[c->count - 1] : NULL;
	const char *end = "\r\n";

	if (line[0] == '>' && (!last || last->answer_end != buf_len(&c->answer) ||
			       buf_len(&c->answer) > (last > c->steps ? last[-1].answer_end : 0))) {
		assert_true(c->count < STEPS_MAX);
		last = &c->steps[c->count++];
		last->line = number;
		last->answer_end = buf_len(&c->answer);
	}
	if (line[0] == '>' && line[1] == 'n')
		end = "\n";
	else if (line[0] == '>' && line[1] == '-')
		end = "";
	cases_bytes(strchr(line, ' ') + 1, to);
	buf_append_text(to, end);
	last->end = buf_len(&c->input);
	last->answer_end = buf_len(&c->answer);
}
