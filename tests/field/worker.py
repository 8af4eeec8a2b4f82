#!/usr/bin/env python3
"""worker.py MODE URL QUEUE COUNT WORK_MS: a worker with the Python client and its defaults.

    sub    take COUNT messages of a subscription, one after the other, each with its ack
    get    the same with GET
    batch  take ten at a time, work on all, and acknowledge them together
    touch  take one message, work COUNT times, and ask for more time after each

Each message takes WORK_MS. Prints "payload attempt" for what is done, "late payload" for an ack
that came too late.
"""

import os
import sys
import time

import tidemq

WAIT_S = 60 * float(os.environ.get("TIDE_TEST_PATIENCE", "1"))


def work(milliseconds: float) -> None:
    time.sleep(milliseconds / 1000)


def settle(client: tidemq.Client, *messages: tidemq.Message) -> None:
    try:
        client.ack(*messages)
    except tidemq.LeaseLost:
        print(*(f"late {message.payload.decode()}" for message in messages), sep="\n")
    else:
        print(*(f"{message.payload.decode()} {message.attempt}" for message in messages), sep="\n")


def main() -> None:
    mode, url, queue, count, milliseconds = sys.argv[1:]
    pause = float(milliseconds)
    with tidemq.connect(url) as client:
        if mode == "sub":
            messages = client.subscribe(queue)
            for _ in range(int(count)):
                message = messages.next(timeout=WAIT_S)
                work(pause)
                settle(client, message)
        elif mode == "touch":
            [message] = client.get(queue, wait=60)
            for _ in range(int(count)):
                work(pause)
                client.touch(message)
            settle(client, message)
        else:
            done = 0
            while done < int(count):
                batch = client.get(queue, max=10 if mode == "batch" else 1, wait=60)
                for _ in batch:
                    work(pause)
                settle(client, *batch)
                done += len(batch)


if __name__ == "__main__":
    main()
