#include "login.h"

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "network.h"

struct login_delay_entry {
	UT_hash_handle hh;
	TAILQ_ENTRY(login_delay_entry) link;
	int64_t delay_ms;
	int64_t until_ms; /* when the last failure is told */
	size_t key_len;
	char key[];
};

void login_delay_key(struct buf *out, const char *address, bool is_local,
		     struct slice user)
{
	char network[NETWORK_TEXT_MAX];

	network_name(address, network);
	buf_append_text(out, network);
	if (!is_local)
		return;
	buf_append_char(out, ' ');
	buf_append_slice(out, user);
}

void login_delay_init(struct login_delays *d)
{
	*d = (struct login_delays){ 0 };
	TAILQ_INIT(&d->list);
}

static void forget(struct login_delays *d, struct login_delay_entry *e)
{
	HASH_DEL(d->by_key, e);
	TAILQ_REMOVE(&d->list, e, link);
	mem_free(e);
}

void login_delay_deinit(struct login_delays *d)
{
	struct login_delay_entry *e;

	while ((e = TAILQ_FIRST(&d->list)) != NULL)
		forget(d, e);
}

static struct login_delay_entry *find(const struct login_delays *d, struct slice key)
{
	struct login_delay_entry *e;

	HASH_FIND(hh, d->by_key, key.data, key.len, e);
	return e;
}

static void forget_old(struct login_delays *d, int64_t mono_ms)
{
	struct login_delay_entry *e;

	while ((e = TAILQ_FIRST(&d->list)) != NULL &&
	       (e->until_ms + LOGIN_DELAY_FORGET_MS <= mono_ms ||
		HASH_COUNT(d->by_key) >= LOGIN_DELAY_ENTRIES_MAX))
		forget(d, e);
}

static struct login_delay_entry *create(struct login_delays *d, struct slice key)
{
	struct login_delay_entry *e = mem_zalloc(sizeof(*e) + key.len);

	e->key_len = key.len;
	memcpy(e->key, key.data, key.len);
	HASH_ADD_KEYPTR(hh, d->by_key, e->key, e->key_len, e);
	TAILQ_INSERT_TAIL(&d->list, e, link);
	return e;
}

int64_t login_delay_add(struct login_delays *d, struct slice key, int64_t mono_ms)
{
	struct login_delay_entry *e;

	forget_old(d, mono_ms);
	e = find(d, key);
	if (!e)
		e = create(d, key);
	e->delay_ms = e->delay_ms ? 2 * e->delay_ms : LOGIN_DELAY_FIRST_MS;
	if (e->delay_ms > LOGIN_DELAY_MAX_MS)
		e->delay_ms = LOGIN_DELAY_MAX_MS;
	e->until_ms = mono_ms + e->delay_ms;
	TAILQ_REMOVE(&d->list, e, link);
	TAILQ_INSERT_TAIL(&d->list, e, link);
	return e->delay_ms;
}

int64_t login_delay_until_ms(const struct login_delays *d, struct slice key,
			     int64_t mono_ms)
{
	const struct login_delay_entry *e = find(d, key);

	return e && e->until_ms > mono_ms ? e->until_ms : 0;
}

static int make_user(const struct login_spec *spec, const struct auth_identity *identity,
		     struct login_answer *out)
{
	struct slice patterns[USER_ACTION_COUNT];
	struct user *u = user_create(slice_from(identity->name));
	int rc;

	for (int i = 0; i < USER_ACTION_COUNT; i++)
		patterns[i] =
			slice_from(identity->patterns[i] ? identity->patterns[i] : "");
	u->is_from_script = true;
	/* The values are the same. */
	u->tags = identity->tags;
	u->limits = (struct user_limits){
		.connections = identity->limits.connections,
		.channels = identity->limits.channels,
		.publish_rate = identity->limits.publish_rate,
		.publish_bytes = identity->limits.publish_bytes,
	};
	rc = user_grant_set(u, spec->vhost, patterns, &out->why);
	if (rc < 0)
		user_unref(u);
	else
		out->user = u;
	return rc;
}

static void login_script_ask(const struct login_spec *spec, struct login_answer *out)
{
	const struct auth_login login = {
		.user = spec->user,
		.password = spec->password,
		.vhost = spec->vhost,
		.name = spec->name,
		.address = network_host(spec->address),
		.certificate = slice_from(spec->certificate),
		.protocol = spec->protocol,
		.is_tls = spec->is_tls,
		.is_local = spec->is_local,
	};
	struct auth_decision decision;

	*out = (struct login_answer){ .verdict = AUTH_REFUSE };
	if (auth_authenticate(spec->scripts, &login, &decision, &out->why) < 0)
		return;
	out->verdict = decision.verdict;
	if (decision.verdict == AUTH_REFUSE)
		error_set(&out->why, TIDE_EDENIED, "%s: %s", decision.file,
			  decision.reason);
	else if (decision.has_identity && make_user(spec, &decision.identity, out) < 0)
		out->verdict = AUTH_REFUSE;
	auth_decision_deinit(&decision);
}

/* Attempts that need not wait begin a few at a time: ten thousand may come back at
 * once. */
#define BEGIN_MAX 256

struct login_attempt {
	TAILQ_ENTRY(login_attempt) link;
	struct heap_node late_node;
	struct login *login;
	bool is_running;
	struct login_spec spec; /* its texts are copies */
	char *copies[6];
	size_t password_len;
	struct buf key;               /* of its delay: the address */
	struct password_job *job;     /* while it runs */
	struct user *user;            /* likewise, a reference; NULL: there is none */
	char text[PASSWORD_TEXT_MAX]; /* of the password that is verified */
	/* Not the proof of its password. */
	bool has_tried;
	unsigned char tried[PASSWORD_PROOF_BYTES];
};

void login_init(struct login *l, const struct users *users, struct password_work *work)
{
	*l = (struct login){ .users = users, .work = work };
	login_delay_init(&l->delays);
	TAILQ_INIT(&l->waiting);
	TAILQ_INIT(&l->running);
	l->has_key = password_draw_key(l->key, sizeof(l->key));
}

void login_deinit(struct login *l)
{
	login_delay_deinit(&l->delays);
	heap_deinit(&l->late);
	password_wipe(l->key, sizeof(l->key));
}

static struct slice keep_slice(struct login_attempt *a, int i, struct slice text)
{
	a->copies[i] = text.data ? mem_strndup(text.data, text.len) : NULL;
	return (struct slice){ a->copies[i], text.len };
}

static const char *keep_text(struct login_attempt *a, int i, const char *text)
{
	return a->copies[i] = text ? mem_strdup(text) : NULL;
}

static struct login_attempt *create_attempt(struct login *l,
					    const struct login_spec *spec)
{
	struct login_attempt *a = mem_zalloc(sizeof(*a));

	a->login = l;
	a->spec = *spec;
	a->password_len = spec->password.len;
	a->spec.user = keep_slice(a, 0, spec->user);
	a->spec.password = keep_slice(a, 1, spec->password);
	a->spec.vhost = keep_slice(a, 2, spec->vhost);
	a->spec.name = keep_slice(a, 3, spec->name);
	a->spec.address = keep_text(a, 4, spec->address);
	a->spec.certificate = keep_text(a, 5, spec->certificate);
	buf_append_char(&a->key, '@');
	login_delay_key(&a->key, spec->address, spec->is_local, spec->user);
	return a;
}

static void destroy(struct login_attempt *a)
{
	if (a->spec.password.data)
		password_wipe(a->copies[1], a->password_len);
	for (size_t i = 0; i < sizeof(a->copies) / sizeof(a->copies[0]); i++)
		mem_free(a->copies[i]);
	user_unref(a->user);
	buf_deinit(&a->key);
	mem_free(a);
}

static void let_in(struct login_attempt *a, struct user *u)
{
	struct login_spec spec = a->spec;

	a->login->counters.accepted++;
	user_ref(u);
	destroy(a);
	spec.on_done(spec.ctx, u, NULL);
}

/* The client is not told why: it would learn who is a user. */
static void tell_refusal(struct login_attempt *a)
{
	struct login_spec spec = a->spec;
	struct error err;

	destroy(a);
	error_set(&err, TIDE_EDENIED, "the user or the password is wrong");
	spec.on_done(spec.ctx, NULL, &err);
}

static void note_due(struct login *l, int64_t mono_ms)
{
	l->due_ms = heap_earlier(l->due_ms, mono_ms);
}

static void refuse(struct login_attempt *a, const char *why)
{
	struct login *l = a->login;
	struct buf user = { 0 };
	int64_t mono_ms = l->now_ms, user_ms;
	int64_t delay_ms = login_delay_add(&l->delays, buf_slice(&a->key), mono_ms);

	buf_append_char(&user, 'u');
	buf_append_slice(&user, a->spec.user);
	user_ms = login_delay_add(&l->delays, buf_slice(&user), mono_ms);
	buf_deinit(&user);
	if (user_ms > delay_ms)
		delay_ms = user_ms;
	l->counters.refused++;
	log_warn("login as '%" SLICE_FMT "' from %s refused: %s; told after %lld ms",
		 SLICE_ARG(a->spec.user), a->spec.address ? a->spec.address : "?", why,
		 (long long)delay_ms);
	heap_set(&l->late, &a->late_node, mono_ms + delay_ms);
	note_due(l, mono_ms + delay_ms);
}

static bool is_by_certificate(const struct login_attempt *a)
{
	const struct login_spec *s = &a->spec;

	return s->certificate && s->is_certificate_user && !s->password.data &&
	       (!s->user.data || slice_is(s->user, s->certificate));
}

static struct user *find_user(const struct login_attempt *a)
{
	return users_find(a->login->users, is_by_certificate(a)
						   ? slice_from(a->spec.certificate)
						   : a->spec.user);
}

static struct slice key_of(const struct login *l)
{
	return (struct slice){ (const char *)l->key, sizeof(l->key) };
}

/* The password was right before. */
static bool is_remembered(struct login_attempt *a, const struct user *u)
{
	unsigned char proof[PASSWORD_PROOF_BYTES];

	if (!u || !u->password || !u->has_proof || !a->spec.password.data ||
	    (a->has_tried && memcmp(a->tried, u->proof, sizeof(a->tried)) == 0))
		return false;
	if (password_prove(key_of(a->login), a->spec.password, u->password, proof) &&
	    password_is_proof(proof, u->proof))
		return true;
	a->has_tried = true;
	memcpy(a->tried, u->proof, sizeof(a->tried));
	return false;
}

static void remember(struct login_attempt *a, struct user *u)
{
	u->has_proof =
		a->login->has_key &&
		password_prove(key_of(a->login), a->spec.password, a->text, u->proof);
}

static void run_waiting(struct login *l);

static void end_run(struct login_attempt *a)
{
	TAILQ_REMOVE(&a->login->running, a, link);
	a->login->running_count--;
	a->is_running = false;
}

/* The user may have changed meanwhile. */
static bool is_right(const struct login_attempt *a, const struct password_result *result)
{
	const struct user *u = a->user;

	return result->is_right && u && !u->is_deleted && u->password &&
	       strcmp(u->password, a->text) == 0;
}

static void on_verified(void *ctx, const struct password_result *result)
{
	struct login_attempt *a = ctx;
	struct login *l = a->login;

	end_run(a);
	if (is_right(a, result)) {
		remember(a, a->user);
		let_in(a, a->user);
	} else {
		refuse(a, a->user ? "its password is wrong" : "there is no such user");
	}
	run_waiting(l);
}

static void verify(struct login_attempt *a, struct user *u)
{
	struct login *l = a->login;
	bool has_password = u && u->password;

	a->user = u ? user_ref(u) : NULL;
	memcpy(a->text, password_of_nobody, sizeof(a->text));
	if (has_password)
		memcpy(a->text, u->password, strlen(u->password) + 1);
	TAILQ_INSERT_TAIL(&l->running, a, link);
	l->running_count++;
	a->is_running = true;
	a->job = password_work_verify(l->work, a->spec.password, a->text, on_verified, a);
}

/* @return  false: the table of users decides */
static bool decide_by_script(struct login_attempt *a)
{
	struct login_answer answer;
	struct user *u;

	login_script_ask(&a->spec, &answer);
	if (answer.verdict == AUTH_NONE)
		return false;
	u = answer.user ? answer.user : find_user(a);
	if (answer.verdict == AUTH_REFUSE)
		refuse(a, answer.why.text);
	else if (!u || u->unreadable)
		refuse(a, "a script lets it in, but there is no such user");
	else
		let_in(a, u);
	user_unref(answer.user);
	return true;
}

static void decide(struct login_attempt *a)
{
	struct user *u = find_user(a);

	if (a->spec.scripts && decide_by_script(a))
		return;
	if (u && u->unreadable) {
		refuse(a, "what Redis has of this user cannot be read");
	} else if (is_by_certificate(a)) {
		if (u)
			let_in(a, u);
		else
			refuse(a, "the certificate names no user");
	} else if (!a->spec.password.data) {
		refuse(a, "it gave no password");
	} else if (a->spec.password.len > PASSWORD_LEN_MAX) {
		refuse(a, "its password is too long");
	} else if (is_remembered(a, u)) {
		a->login->counters.remembered++;
		let_in(a, u);
	} else {
		verify(a, u);
	}
}

static bool is_running(const struct login *l, struct slice key)
{
	const struct login_attempt *a;

	TAILQ_FOREACH (a, &l->running, link)
		if (slice_is_equal(buf_slice(&a->key), key))
			return true;
	return false;
}

/* A known user need not wait: others fail from his address, or in his name.
 *
 * @param until_ms  receives when it is to be asked again; 0: when an attempt has ended */
static bool may_begin(struct login_attempt *a, int64_t *until_ms)
{
	struct login *l = a->login;
	struct slice key = buf_slice(&a->key);

	*until_ms = 0;
	if (!a->spec.scripts && (is_by_certificate(a) || is_remembered(a, find_user(a))))
		return true;
	*until_ms = login_delay_until_ms(&l->delays, key, l->now_ms);
	return !*until_ms && l->running_count < PASSWORD_WORK_MAX && !is_running(l, key);
}

static void run_waiting(struct login *l)
{
	struct login_attempt *a, *next;
	unsigned begun = 0;
	int64_t until_ms;

	for (a = TAILQ_FIRST(&l->waiting); a; a = next) {
		next = TAILQ_NEXT(a, link);
		if (begun == BEGIN_MAX) {
			note_due(l, l->now_ms);
			return;
		}
		if (!may_begin(a, &until_ms)) {
			note_due(l, until_ms);
			continue;
		}
		TAILQ_REMOVE(&l->waiting, a, link);
		begun++;
		decide(a);
	}
}

struct login_attempt *login_start(struct login *l, const struct login_spec *spec,
				  int64_t mono_ms)
{
	struct login_attempt *a = create_attempt(l, spec);
	uint64_t accepted = l->counters.accepted;
	int64_t until_ms;

	l->now_ms = mono_ms;
	if (!may_begin(a, &until_ms)) {
		note_due(l, until_ms);
		TAILQ_INSERT_TAIL(&l->waiting, a, link);
		return a;
	}
	decide(a);
	return l->counters.accepted == accepted ? a : NULL;
}

void login_cancel(struct login_attempt *a)
{
	struct login *l = a->login;

	if (heap_has(&a->late_node)) {
		heap_remove(&l->late, &a->late_node);
	} else if (a->is_running) {
		end_run(a);
		password_work_cancel(a->job);
	} else {
		TAILQ_REMOVE(&l->waiting, a, link);
	}
	destroy(a);
}

void login_turn(struct login *l, int64_t mono_ms)
{
	struct heap_node *n;

	l->now_ms = mono_ms;
	if (!l->due_ms || l->due_ms > mono_ms)
		return;
	l->due_ms = 0;
	while ((n = heap_min(&l->late)) != NULL && n->key <= mono_ms) {
		heap_remove(&l->late, n);
		tell_refusal(container_of(n, struct login_attempt, late_node));
	}
	if (n)
		note_due(l, n->key);
	run_waiting(l);
}

int64_t login_due_ms(const struct login *l)
{
	return l->due_ms;
}
