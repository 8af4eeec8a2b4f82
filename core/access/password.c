#include "password.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>

#include "base/mem.h"

/* 16 MiB, five times: one of the costs that OWASP advises for scrypt. */
#define COST_LN 14
#define COST_R 8
#define COST_P 5

#define SALT_BYTES 16
#define KEY_BYTES 32
/* Of what others have hashed. */
#define SALT_BYTES_MAX 32
#define KEY_BYTES_MIN 16
#define KEY_BYTES_MAX 48
#define LN_MAX 17
#define R_MAX 16
#define P_MAX 16
#define MEMORY_MAX ((uint64_t)160 << 20)

const char password_of_nobody[PASSWORD_TEXT_MAX] =
	"$scrypt$ln=14,r=8,p=5$AAAAAAAAAAAAAAAAAAAAAA$"
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/* A text taken apart. */
struct parts {
	unsigned ln, r, p;
	size_t salt_len, key_len;
	unsigned char salt[SALT_BYTES_MAX];
	unsigned char key[KEY_BYTES_MAX];
};

int password_check(struct slice password, struct error *err)
{
	if (password.len >= 1 && password.len <= PASSWORD_LEN_MAX)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX, "a password has 1 to %d bytes",
			 PASSWORD_LEN_MAX);
}

static const char alphabet[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode(const unsigned char *data, size_t len, char *out)
{
	unsigned bits = 0, count = 0;

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | data[i];
		for (count += 8; count >= 6; count -= 6)
			*out++ = alphabet[bits >> (count - 6) & 63];
	}
	if (count > 0)
		*out++ = alphabet[bits << (6 - count) & 63];
	*out = '\0';
}

static bool decode(struct slice text, unsigned char *out, size_t max, size_t *len)
{
	unsigned bits = 0, count = 0;

	*len = 0;
	for (size_t i = 0; i < text.len; i++) {
		const char *at = memchr(alphabet, text.data[i], 64);

		if (!at)
			return false;
		bits = bits << 6 | (unsigned)(at - alphabet);
		count += 6;
		if (count < 8)
			continue;
		if (*len == max)
			return false;
		count -= 8;
		out[(*len)++] = (unsigned char)(bits >> count);
	}
	return true;
}

static bool derive(struct slice password, const struct parts *parts, unsigned char *key)
{
	return EVP_PBE_scrypt(password.data, password.len, parts->salt, parts->salt_len,
			      UINT64_C(1) << parts->ln, parts->r, parts->p,
			      2 * MEMORY_MAX, key, parts->key_len) == 1;
}

int password_hash(struct slice password, char out[PASSWORD_TEXT_MAX], struct error *err)
{
	struct parts parts = { .ln = COST_LN,
			       .r = COST_R,
			       .p = COST_P,
			       .salt_len = SALT_BYTES,
			       .key_len = KEY_BYTES };
	char salt[2 * SALT_BYTES], key[2 * KEY_BYTES];

	if (RAND_bytes(parts.salt, SALT_BYTES) != 1)
		return error_set(err, TIDE_ELIMIT,
				 "there are no random numbers for a password");
	if (!derive(password, &parts, parts.key))
		return error_set(err, TIDE_ELIMIT,
				 "there is no memory to hash a password");
	encode(parts.salt, SALT_BYTES, salt);
	encode(parts.key, KEY_BYTES, key);
	snprintf(out, PASSWORD_TEXT_MAX, "$scrypt$ln=%d,r=%d,p=%d$%s$%s", COST_LN, COST_R,
		 COST_P, salt, key);
	return TIDE_OK;
}

/* "ln=14" */
static bool read_number(struct slice word, const char *name, unsigned max, unsigned *out)
{
	struct slice value = word, head = slice_cut(&value, '=');
	uint64_t n;

	if (!slice_is(head, name) || !slice_to_uint(value, max, &n) || n == 0)
		return false;
	*out = (unsigned)n;
	return true;
}

static bool parse(struct slice text, struct parts *parts)
{
	struct slice rest = text, start = slice_cut(&rest, '$');
	struct slice name = slice_cut(&rest, '$'), cost = slice_cut(&rest, '$');
	struct slice salt = slice_cut(&rest, '$');

	return start.len == 0 && slice_is(name, "scrypt") &&
	       read_number(slice_cut(&cost, ','), "ln", LN_MAX, &parts->ln) &&
	       read_number(slice_cut(&cost, ','), "r", R_MAX, &parts->r) &&
	       read_number(cost, "p", P_MAX, &parts->p) &&
	       ((uint64_t)128 * parts->r << parts->ln) <= MEMORY_MAX &&
	       decode(salt, parts->salt, sizeof(parts->salt), &parts->salt_len) &&
	       decode(rest, parts->key, sizeof(parts->key), &parts->key_len) &&
	       parts->key_len >= KEY_BYTES_MIN;
}

bool password_is_readable(struct slice text)
{
	struct parts parts;

	return text.len < PASSWORD_TEXT_MAX && parse(text, &parts);
}

bool password_is_right(struct slice password, const char *text)
{
	unsigned char key[KEY_BYTES_MAX];
	struct parts parts;

	return parse(slice_from(text), &parts) && derive(password, &parts, key) &&
	       CRYPTO_memcmp(key, parts.key, parts.key_len) == 0;
}

bool password_prove(struct slice key, struct slice password, const char *text,
		    unsigned char out[PASSWORD_PROOF_BYTES])
{
	unsigned char both[PASSWORD_TEXT_MAX + PASSWORD_LEN_MAX];
	size_t text_len = strlen(text);
	bool is_done = false;

	if (text_len >= PASSWORD_TEXT_MAX || password.len > PASSWORD_LEN_MAX)
		return false;
	/* The text has no zero, which ends it. */
	memcpy(both, text, text_len + 1);
	memcpy(both + text_len + 1, password.data, password.len);
	is_done = HMAC(EVP_sha256(), key.data, (int)key.len, both,
		       text_len + 1 + password.len, out, NULL) != NULL;
	password_wipe(both, sizeof(both));
	return is_done;
}

bool password_is_proof(const unsigned char a[PASSWORD_PROOF_BYTES],
		       const unsigned char b[PASSWORD_PROOF_BYTES])
{
	return CRYPTO_memcmp(a, b, PASSWORD_PROOF_BYTES) == 0;
}

bool password_draw_key(unsigned char *out, size_t len)
{
	return RAND_bytes(out, (int)len) == 1;
}

void password_wipe(void *data, size_t len)
{
	OPENSSL_cleanse(data, len);
}

struct password_job {
	STAILQ_ENTRY(password_job) link;
	uv_work_t work;
	struct password_work *owner;
	password_work_fn on_done; /* NULL: nobody waits for it any more */
	void *ctx;
	bool is_hash;
	/* Of the thread, while it runs. */
	char text[PASSWORD_TEXT_MAX];
	struct error err;
	bool is_right;
	size_t password_len;
	char password[];
};

void password_work_init(struct password_work *w, uv_loop_t *loop)
{
	*w = (struct password_work){ .loop = loop };
	STAILQ_INIT(&w->waiting);
}

static void destroy(struct password_job *job)
{
	password_wipe(job->password, job->password_len);
	mem_free(job);
}

/* On a thread. */
static void on_work(uv_work_t *work)
{
	struct password_job *job = work->data;
	struct slice password = { job->password, job->password_len };

	if (!job->is_hash)
		job->is_right = password_is_right(password, job->text);
	else if (password_hash(password, job->text, &job->err) == TIDE_OK)
		job->err.code = TIDE_OK;
}

static void run_next(struct password_work *w);

static void on_after(uv_work_t *work, int status)
{
	struct password_job *job = work->data;
	struct password_work *w = job->owner;
	const struct password_result result = {
		.status = job->err.code,
		.why = job->err.text,
		.is_right = job->is_right,
		.text = job->text,
	};

	w->running--;
	if (w->on_closed && w->running == 0) {
		destroy(job);
		w->on_closed(w->ctx);
		return;
	}
	run_next(w);
	if (job->on_done)
		job->on_done(job->ctx, &result);
	destroy(job);
}

static void run_next(struct password_work *w)
{
	struct password_job *job;

	while (w->running < PASSWORD_WORK_MAX &&
	       (job = STAILQ_FIRST(&w->waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&w->waiting, link);
		if (!job->on_done) {
			destroy(job);
			continue;
		}
		w->running++;
		w->count++;
		/* The call fails only without a callback. */
		uv_queue_work(w->loop, &job->work, on_work, on_after);
	}
}

static struct password_job *begin(struct password_work *w, struct slice password,
				  const char *text, password_work_fn on_done, void *ctx)
{
	struct password_job *job = mem_zalloc(sizeof(*job) + password.len);

	job->owner = w;
	job->on_done = on_done;
	job->ctx = ctx;
	job->work.data = job;
	job->is_hash = !text;
	if (text)
		snprintf(job->text, sizeof(job->text), "%s", text);
	job->password_len = password.len;
	memcpy(job->password, password.data, password.len);
	STAILQ_INSERT_TAIL(&w->waiting, job, link);
	run_next(w);
	return job;
}

struct password_job *password_work_hash(struct password_work *w, struct slice password,
					password_work_fn on_done, void *ctx)
{
	return begin(w, password, NULL, on_done, ctx);
}

struct password_job *password_work_verify(struct password_work *w, struct slice password,
					  const char *text, password_work_fn on_done,
					  void *ctx)
{
	return begin(w, password, text, on_done, ctx);
}

void password_work_cancel(struct password_job *job)
{
	job->on_done = NULL;
}

void password_work_close(struct password_work *w, void (*on_closed)(void *ctx), void *ctx)
{
	struct password_job *job;

	while ((job = STAILQ_FIRST(&w->waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&w->waiting, link);
		destroy(job);
	}
	w->on_closed = on_closed;
	w->ctx = ctx;
	if (w->running == 0)
		on_closed(ctx);
}
