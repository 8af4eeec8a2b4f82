
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/machine.h"

/* A process that does nothing until it is killed, and what it says of itself. */
static pid_t begin_child(struct process *out)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		process_self(out);
		if (write(ends[1], out, sizeof(*out)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ends[0], out, sizeof(*out)), sizeof(*out));
	close(ends[0]);
	close(ends[1]);
	return pid;
}

TEST_THAT(the_own_process_has_not_ended)
{
	struct process self;

	process_self(&self);
	assert_int_equal(self.pid, getpid());
	assert_true(self.boot[0] != '\0' && self.start_tick > 0 && self.pids > 0);
	assert_false(process_has_ended(&self));
}

TEST_THAT(a_process_has_ended_from_its_death_on)
{
	struct process child;
	siginfo_t info;
	pid_t pid = begin_child(&child);

	assert_int_equal(child.pid, pid);
	assert_false(process_has_ended(&child));
	kill(pid, SIGSTOP);
	assert_false(process_has_ended(&child));
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(process_has_ended(&child)); /* nobody has waited for it yet */
	waitpid(pid, NULL, 0);
	assert_true(process_has_ended(&child));
}

TEST_THAT(another_process_may_have_the_pid)
{
	struct process self;

	process_self(&self);
	self.start_tick--;
	assert_true(process_has_ended(&self));
}

TEST_THAT(elsewhere_nothing_is_known)
{
	struct process p;

	process_self(&p);
	p.pid = INT32_MAX;
	assert_true(process_has_ended(&p));
	p.pids++;
	assert_false(process_has_ended(&p));
	p.pids--;
	p.boot[0] ^= 1;
	assert_false(process_has_ended(&p));
	p = (struct process){ .pid = 1 };
	assert_false(process_has_ended(&p));
}

RUN_TESTS()
