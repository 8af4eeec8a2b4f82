#include "check.h"

#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static void nothing_is_a_size_too(void **state)
{
	void *p = mem_alloc(0);
	assert_non_null(p);
	p = mem_realloc(p, 0);
	assert_non_null(p);
	mem_free(p);
	mem_free(NULL);
}

static void zalloc_gives_zero_bytes(void **state)
{
	char *p = mem_zalloc(100);
	for (int i = 0; i < 100; i++)
		assert_int_equal(p[i], 0);
	mem_free(p);
}

/* Each size has some blocks more, which each thread keeps for itself. */
static void freed_blocks_are_joined_early(void **state)
{
	void *blocks[1000];

	mem_join_early();
	for (size_t i = 0; i < COUNT(blocks); i++)
		blocks[i] = mem_alloc(40);
	for (size_t i = 0; i < COUNT(blocks); i++)
		mem_free(blocks[i]);
	assert_int_equal(mallinfo2().smblks, 0);
}

static void strings_are_copied_with_their_zero(void **state)
{
	char *all = mem_strdup("tide");
	char *some = mem_strndup("tidemq", 4);
	char *none = mem_strndup(NULL, 0);
	assert_string_equal(all, "tide");
	assert_string_equal(some, "tide");
	assert_string_equal(none, "");
	mem_free(all);
	mem_free(some);
	mem_free(none);
}

/* A sanitizer's allocator ends the process on such sizes by itself. */
#if !defined(__SANITIZE_ADDRESS__)
static void a_try_that_fails_is_null(void **state)
{
	volatile size_t absurd = PTRDIFF_MAX;
	assert_null(mem_try_alloc(absurd));
	char *p = mem_alloc(8);
	assert_null(mem_try_realloc(p, absurd));
	mem_free(p);
}
#endif

static void running_out_of_memory_aborts_with_a_message(void **state)
{
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rlimit none = { 0, 0 };
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		dup2(pipe_fds[1], STDERR_FILENO);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		volatile size_t absurd = PTRDIFF_MAX;
		mem_free(mem_alloc(absurd));
		_exit(0);
	}
	close(pipe_fds[1]);
	char text[256] = "";
	size_t len = 0;
	ssize_t n;
	while ((n = read(pipe_fds[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(pipe_fds[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#if !defined(__SANITIZE_ADDRESS__)
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(text, "out of memory"));
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_a_size_too),
		cmocka_unit_test(zalloc_gives_zero_bytes),
		cmocka_unit_test(freed_blocks_are_joined_early),
		cmocka_unit_test(strings_are_copied_with_their_zero),
#if !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(a_try_that_fails_is_null),
#endif
		cmocka_unit_test(running_out_of_memory_aborts_with_a_message),
	};
	return cmocka_run_group_tests_name("base/mem", tests, NULL, NULL);
}
