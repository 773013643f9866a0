"use strict";
// Opens many streams at once, sends on one of them, and says how many go on and how many messages that one got.
//
// Argument: address. Standard input: {"method", "streams", "first", "more", "answers"}, messages in hexadecimal
// digits; after the last of `more`, `answers` messages of the first stream are waited for.

const fs = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const grpc = require("@grpc/grpc-js");

async function main(address, plan) {
  const client = new grpc.Client(address, grpc.credentials.createInsecure());
  const raw = (bytes) => bytes;
  const report = { ready: 0, ended: 0, error: "", answers: 0 };
  const begin = (call, at) =>
    new Promise((resolve) => {
      call.on("data", () => {
        if (at === 0) report.answers += 1;
      });
      call.once("data", () => {
        report.ready += 1;
        resolve();
      });
      call.on("error", () => {});
      call.on("status", (status) => {
        report.ended += 1;
        report.error = status.details;
        resolve();
      });
      for (const message of plan.first) call.write(Buffer.from(message, "hex"));
    });
  const open = () => client.makeBidiStreamRequest(plan.method, raw, raw);
  const calls = Array.from({ length: plan.streams }, open);
  await Promise.all(calls.map(begin));
  for (const message of plan.more) calls[0].write(Buffer.from(message, "hex"));
  for (let waited = 0; report.answers < plan.answers && waited < 20_000; waited += 100) await sleep(100);
  await sleep(1000);
  process.stdout.write(JSON.stringify(report));
  process.exit(0);
}

main(process.argv[2], JSON.parse(fs.readFileSync(0, "utf8")));
