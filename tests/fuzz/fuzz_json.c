/* The JSON reader: what it reads is what jansson reads, and it refuses the rest alike.
 * The front of a text is a whole tape, too. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define DEPTH_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int is)
{
	if (!is)
		abort();
}

/* The node behind the value. */
static uint32_t compare(struct json_tape *t, uint32_t i, json_t *value)
{
	const struct json_node *n = &t->nodes[i];
	const uint32_t end = json_tape_behind(t, i);
	struct slice s;
	uint32_t at;

	switch (json_typeof(value)) {
	case JSON_OBJECT:
		expect(n->kind == JSON_TAPE_OBJECT && n->len == json_object_size(value));
		for (at = json_tape_first(t, i); at < end;) {
			s = json_tape_text(&t->nodes[at]);
			char *name = mem_strndup(s.data, s.len);
			expect(json_tape_member(t, i, s) == at + 1);
			json_t *member = json_object_get(value, name);
			expect(member != NULL);
			at = compare(t, at + 1, member);
			mem_free(name);
		}
		expect(at == end);
		break;
	case JSON_ARRAY:
		expect(n->kind == JSON_TAPE_ARRAY && n->len == json_array_size(value));
		at = json_tape_first(t, i);
		for (size_t k = 0; k < json_array_size(value); k++) {
			expect(json_tape_element(t, i, k + 1) == at);
			at = compare(t, at, json_array_get(value, k));
		}
		expect(at == end);
		break;
	case JSON_STRING:
		s = json_tape_text(n);
		expect(n->kind == JSON_TAPE_TEXT && s.len == json_string_length(value) &&
		       memcmp(s.data, json_string_value(value), s.len) == 0);
		break;
	case JSON_INTEGER:
		expect(n->kind == JSON_TAPE_INTEGER &&
		       n->integer == json_integer_value(value));
		break;
	case JSON_REAL:
		expect(n->kind == JSON_TAPE_NUMBER &&
		       n->number == json_real_value(value));
		break;
	case JSON_TRUE:
		expect(n->kind == JSON_TAPE_TRUE);
		break;
	case JSON_FALSE:
		expect(n->kind == JSON_TAPE_FALSE);
		break;
	case JSON_NULL:
		expect(n->kind == JSON_TAPE_NULL);
		break;
	}
	return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = mem_alloc(size + 1);
	struct json_tape tape = { 0 };
	struct error err;
	json_error_t why;

	memcpy(copy, data, size);
	copy[size] = '\0';
	int rc = json_tape_read(&tape, (struct slice){ copy, size }, DEPTH_MAX, &err);
	json_t *value =
		json_loadb(copy, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (memchr(copy, '\0', size)) { /* jansson lets one pass at the end */
		json_decref(value);
		value = NULL;
	}
	if (rc == TIDE_OK && value)
		expect(compare(&tape, 0, value) == tape.count);
	else if (rc != TIDE_ELIMIT)
		expect(rc != TIDE_OK && !value);
	json_decref(value);
	json_tape_read_front(&tape, (struct slice){ copy, size }, DEPTH_MAX);
	expect(tape.count == 0 || json_tape_behind(&tape, 0) == tape.count);
	json_tape_deinit(&tape);
	mem_free(copy);
	return 0;
}
