"""A Celery application, and one that calls it: python3 tasks.py after a worker has begun."""
import os

from celery import Celery, group

app = Celery('tasks', broker=os.environ['TIDE_TEST_AMQP'], backend='rpc://')
app.conf.task_acks_late = True
WAIT_S = 60 * float(os.environ.get('TIDE_TEST_PATIENCE', '1'))


@app.task
def add(x, y):
    return x + y


@app.task(bind=True, max_retries=3)
def flaky(self, n):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return n


def main():
    assert add.delay(2, 3).get(timeout=WAIT_S) == 5
    print('ok delay')
    assert flaky.delay(7).get(timeout=WAIT_S) == 7
    print('ok retry')
    sums = group(add.s(i, i) for i in range(20))().get(timeout=WAIT_S)
    assert sums == [2 * i for i in range(20)]
    print('ok group')
    # More than the prefetch of the worker, which raises it for tasks that wait.
    later = [add.apply_async((i, 0), countdown=1) for i in range(30)]
    assert [r.get(timeout=WAIT_S) for r in later] == list(range(30))
    print('ok countdown')


if __name__ == '__main__':
    main()
