#!/usr/bin/env python3
"""jobs_asyncio.py [URL]: ten jobs, published and done at the same time by tasks of one loop."""

import asyncio
import sys

import tidemq
from tidemq import aio

QUEUE = "example.asyncio"


async def publish(client: aio.Client) -> None:
    """All at once: each await returns when its own message is durable."""
    receipts = await asyncio.gather(*(
        client.publish(QUEUE, f"job {n}", headers={"note": f"number {n}"}) for n in range(10)))
    print("confirmed:", len(receipts))


async def work(client: aio.Client, done: set[str]) -> None:
    """One of several that share the queue. Each has a channel, and so a prefetch, of its own."""
    async with await client.channel(prefetch=2) as channel:
        async for message in await channel.subscribe(QUEUE):
            await asyncio.sleep(0.01)  # your part
            try:
                await channel.ack(message)
            except tidemq.LeaseLost:
                continue  # the connection broke meanwhile; unless the ack arrived, it comes again
            done.add(message.headers["note"])


async def main() -> None:
    async with aio.connect(sys.argv[1] if len(sys.argv) > 1 else None, heartbeat=10) as client:
        await client.declare_queue(QUEUE, durable=False)
        done: set[str] = set()
        workers = [asyncio.create_task(work(client, done)) for _ in range(3)]
        await publish(client)
        while len(done) < 10:
            await asyncio.sleep(0.01)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        print("done:", ", ".join(sorted(done)))

        try:
            async with client.transaction() as transaction:
                await transaction.publish(QUEUE, "both")
                await transaction.publish("no.such.queue", "or neither", must=True)
        except tidemq.Refused as error:
            print("refused:", error.code)
        print("left:", len(await client.get(QUEUE, max=10)))
        await client.delete_queue(QUEUE)


if __name__ == "__main__":
    asyncio.run(main())
