/* circuit.c: the circuit breakers of the uses of scripts; see engine_private.h. */

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/table.h"
#include "engine_private.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/sandbox/breaker.h"

/* Each takes about 700 bytes, and clients can make uses. */
#define CIRCUITS_MAX 4096

#define KEY_MAX (sizeof(struct rule *) + sizeof(size_t) + NAME_LEN_MAX)

struct circuit {
	UT_hash_handle hh;
	const struct rule *rule;
	struct breaker breaker;
	char *user;
	char last_error[ERROR_TEXT_MAX]; /* of the failures that the breaker counts */
	size_t key_len;
	char key[];
};

static size_t make_key(char out[KEY_MAX], const struct use_call *c)
{
	const struct rule *rule = c->use->rule;
	struct slice whose = c->address.len ? c->address : c->vhost;
	size_t number = c->handle ? c->handle->number : SIZE_MAX - (c->address.len > 0);

	/* A longer text is no name. */
	if (whose.len > NAME_LEN_MAX)
		whose.len = NAME_LEN_MAX;
	memcpy(out, &rule, sizeof(rule));
	memcpy(out + sizeof(rule), &number, sizeof(number));
	if (whose.len)
		memcpy(out + sizeof(rule) + sizeof(number), whose.data, whose.len);
	return sizeof(rule) + sizeof(number) + whose.len;
}

struct circuit *circuit_find(const struct engine *e, const struct use_call *c)
{
	char key[KEY_MAX];
	struct circuit *found;

	if (!e->circuits || e->config.has_no_breaker)
		return NULL;
	size_t len = make_key(key, c);
	HASH_FIND(hh, e->circuits, key, len, found);
	return found;
}

static void forget(struct engine *e, struct circuit *circuit)
{
	HASH_DEL(e->circuits, circuit);
	mem_free(circuit->user);
	mem_free(circuit);
}

/* The closed ones first: they only lose count. */
static void make_room(struct engine *e)
{
	struct circuit *circuit, *next;

	if (HASH_COUNT(e->circuits) < CIRCUITS_MAX)
		return;
	HASH_ITER (hh, e->circuits, circuit, next)
		if (!circuit->breaker.is_open)
			forget(e, circuit);
	if (HASH_COUNT(e->circuits) >= CIRCUITS_MAX)
		circuit_forget_all(e);
}

static struct circuit *create(struct engine *e, const struct use_call *c)
{
	char key[KEY_MAX], user[NAME_LEN_MAX + 24] = "its schedule";
	size_t len = make_key(key, c);
	struct circuit *circuit = mem_zalloc(sizeof(*circuit) + len);

	make_room(e);
	if (c->address.len)
		snprintf(user, sizeof(user), "logins from '%" SLICE_FMT "'",
			 SLICE_ARG(c->address));
	else if (c->vhost.len && c->use->rule->kind != SCRIPT_SCHEDULE)
		snprintf(user, sizeof(user), "vhost '%" SLICE_FMT "'",
			 SLICE_ARG(c->vhost));
	circuit->rule = c->use->rule;
	circuit->user = mem_strdup(c->handle ? c->handle->user : user);
	circuit->key_len = len;
	memcpy(circuit->key, key, len);
	HASH_ADD_KEYPTR(hh, e->circuits, circuit->key, circuit->key_len, circuit);
	return circuit;
}

bool circuit_allows(const struct engine *e, struct circuit *circuit, struct error *err)
{
	int64_t rest_ms = e->config.breaker_rest_ms;

	if (breaker_allows(&circuit->breaker, machine_clock_ms(CLOCK_MONOTONIC), rest_ms))
		return true;
	error_set(err, TIDE_ERULE, "%s (" CIRCUIT_NOT_CALLED "; tried every %d s)",
		  circuit->last_error, (int)((rest_ms + 999) / 1000));
	return false;
}

static void tell(const struct engine *e, const struct circuit *circuit)
{
	if (circuit->breaker.is_open)
		log_error("%s: %s uses up its time or memory too often for %s; paused "
			  "there for %d ms at a time; last error: %s",
			  e->tide.about, circuit->rule->file, circuit->user,
			  (int)e->config.breaker_rest_ms, circuit->last_error);
	else
		log_info("%s: %s works again for %s", e->tide.about, circuit->rule->file,
			 circuit->user);
}

static void count(struct engine *e, struct circuit *circuit, bool has_failed)
{
	int64_t now_ms = machine_clock_ms(CLOCK_MONOTONIC);

	if (!breaker_count(&circuit->breaker, has_failed, now_ms))
		return;
	if (has_failed)
		circuit->breaker.since_unix_ms = machine_clock_ms(CLOCK_REALTIME);
	tell(e, circuit);
}

void circuit_count_failure(struct engine *e, const struct use_call *c,
			   const struct error *err)
{
	struct circuit *circuit = circuit_find(e, c);

	if (e->config.has_no_breaker)
		return;
	if (!circuit)
		circuit = create(e, c);
	snprintf(circuit->last_error, sizeof(circuit->last_error), "%s", err->text);
	count(e, circuit, true);
}

void circuit_count_success(struct engine *e, struct circuit *circuit)
{
	count(e, circuit, false);
	if (breaker_is_blank(&circuit->breaker, machine_clock_ms(CLOCK_MONOTONIC)))
		forget(e, circuit);
}

void circuit_forget_handle(struct engine *e, const struct handle *h)
{
	const struct use use = { .rule = handle_use(h)->rule };
	const struct use_call c = { .use = &use, .handle = h };
	struct circuit *circuit = circuit_find(e, &c);

	if (circuit)
		forget(e, circuit);
}

void circuit_forget_all(struct engine *e)
{
	struct circuit *circuit, *next;

	HASH_ITER (hh, e->circuits, circuit, next)
		forget(e, circuit);
}

unsigned circuit_count_open(const struct engine *e, const struct rule *rule)
{
	const struct circuit *circuit;
	unsigned count = 0;

	for (circuit = e->circuits; circuit; circuit = circuit->hh.next)
		count += circuit->rule == rule && circuit->breaker.is_open;
	return count;
}

static void write_open(const struct engine *e, const struct circuit *circuit,
		       struct json *out)
{
	int64_t now_ms = machine_clock_ms(CLOCK_MONOTONIC);

	json_object_begin(out);
	json_member_text(out, "user", circuit->user);
	json_member_text(
		out, "circuit",
		breaker_state(&circuit->breaker, now_ms, e->config.breaker_rest_ms));
	json_member_int(out, "since_ms", circuit->breaker.since_unix_ms);
	json_member_text(out, "last_error", circuit->last_error);
	json_object_end(out);
}

void circuit_write(const struct engine *e, const struct rule *rule, struct json *out)
{
	const struct circuit *circuit, *worst = NULL;
	int64_t now_ms = machine_clock_ms(CLOCK_MONOTONIC);
	unsigned shown = 0;

	for (circuit = e->circuits; circuit; circuit = circuit->hh.next)
		if (circuit->rule == rule && circuit->breaker.is_open &&
		    (!worst || circuit->breaker.opened_ms > worst->breaker.opened_ms))
			worst = circuit;
	json_member_text(
		out, "circuit",
		worst ? breaker_state(&worst->breaker, now_ms, e->config.breaker_rest_ms)
		      : "closed");
	if (!worst)
		return;
	json_member_int(out, "circuit_since_ms", worst->breaker.since_unix_ms);
	json_member_array(out, "circuits");
	for (circuit = e->circuits; circuit && shown < CIRCUITS_SHOWN;
	     circuit = circuit->hh.next)
		if (circuit->rule == rule && circuit->breaker.is_open) {
			write_open(e, circuit, out);
			shown++;
		}
	json_array_end(out);
}
