#include "moment.h"

#include "engine_private.h"

void engine_moment_begin(struct engine *e, struct moment *m)
{
	m->now_ms = engine_now_ms(e);
	m->random_state = e->tide.random_state;
	m->was_fixed = e->tide.is_clock_fixed;
	engine_set_clock(e, m->now_ms);
}

void engine_moment_end(struct engine *e, const struct moment *m)
{
	e->tide.is_clock_fixed = m->was_fixed;
}

void engine_moment_borrow(struct engine *e, const struct moment *m)
{
	engine_set_clock(e, m->now_ms);
	engine_seed(e, m->random_state);
}

void engine_moment_return(struct engine *e)
{
	engine_release_clock(e);
}

void engine_moment_borrow_dry(struct engine *e, const struct moment *m,
			      struct engine *other, struct dry_run *run)
{
	e->own_shared = e->shared;
	e->shared = other->shared;
	engine_dry_run_begin(e, run);
	engine_moment_borrow(e, m);
}

void engine_moment_return_dry(struct engine *e)
{
	engine_moment_return(e);
	engine_dry_run_end(e);
	e->shared = e->own_shared;
}
