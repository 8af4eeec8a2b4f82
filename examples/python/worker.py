#!/usr/bin/env python3
"""worker.py [URL [COUNT]]: work on the jobs of a queue, and survive restarts of the broker.

It ends after COUNT jobs, at Ctrl-C or SIGTERM. What it holds then goes back to the queue, and does
not count as failed.
"""

import signal
import sys

import tidemq

QUEUE = "example.python"


def work(message: tidemq.Message) -> None:
    """Your part. It is called again for a message that is delivered again."""
    text = message.payload.decode()
    if text == "job 2" and message.attempt == 1:
        raise RuntimeError("the first attempt at job 2 fails")
    print(f"done: {text}, note {message.headers.get('note')!r}, attempt {message.attempt}")


def settle(client: tidemq.Client, message: tidemq.Message) -> bool:
    """Work, and say how it went."""
    try:
        work(message)
    except RuntimeError as error:
        print(f"failed: {error}")
        client.nack(message, reason=str(error))
        return False
    client.ack(message)
    return True


def run(client: tidemq.Client, count: int | None) -> None:
    """Work until so many jobs are done."""
    # Declared again after each reconnect, as the subscription is.
    client.declare_queue(QUEUE, retry="exponential", options={"retry.base": "100ms"})
    done = 0
    for message in client.subscribe(QUEUE):
        try:
            done += settle(client, message)
        except tidemq.LeaseLost as late:
            # The work took too long, or the connection broke meanwhile. Unless the ack arrived, the
            # job is given out again.
            print(f"late: {late}", file=sys.stderr)
        if done == count:
            return


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else None
    count = int(sys.argv[2]) if len(sys.argv) > 2 else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

    def on_state(state: str, text: str) -> None:
        print(f"{state}: {text}", file=sys.stderr)

    try:
        with tidemq.connect(url, name="python-worker", on_state=on_state) as client:
            run(client, count)
    except KeyboardInterrupt:
        pass  # the client has left in order
    except tidemq.Error as error:
        sys.exit(f"worker.py: {error}")


if __name__ == "__main__":
    main()
