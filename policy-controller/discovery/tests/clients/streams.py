"""Opens many streams at once, sends on one of them, and says how many go on and how many messages that one got.

Argument: address. Standard input: {"method", "streams", "first", "more", "answers"}, messages in hexadecimal
digits; after the last of `more`, `answers` messages of the first stream are waited for.
"""

import asyncio
import json
import sys

import grpc.aio

BROKEN = (grpc.aio.AioRpcError, asyncio.InvalidStateError)


async def main(address, plan):
    async with grpc.aio.insecure_channel(address) as channel:
        method = channel.stream_stream(plan["method"])
        calls = [method() for _ in range(plan["streams"])]
        errors, answers = [], 0

        async def begin(call):
            try:
                for message in plan["first"]:
                    await call.write(bytes.fromhex(message))
                return await call.read() is not grpc.aio.EOF
            except BROKEN as error:
                errors.append(str(error))
                return False

        async def read():
            nonlocal answers
            try:
                while answers < plan["answers"] and await calls[0].read() is not grpc.aio.EOF:
                    answers += 1
            except BROKEN as error:
                errors.append(str(error))

        ready = sum(await asyncio.gather(*(begin(call) for call in calls)))
        answers = 1
        reading = asyncio.create_task(read())
        try:
            for message in plan["more"]:
                await calls[0].write(bytes.fromhex(message))
        except BROKEN as error:
            errors.append(str(error))
        await asyncio.wait([reading], timeout=20)
        await asyncio.sleep(1)
        ended = sum(call.done() for call in calls)
        error = errors[0] if errors else ""
        print(json.dumps({"ready": ready, "ended": ended, "error": error, "answers": answers}))
        for call in calls:
            call.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.load(sys.stdin)))
