#!/usr/bin/env node
"use strict";
// Watches the policy of a workload over portcullis.policy.v1 and prints what happens, one JSON object
// a line. The client's side of docs/watch-api.md, as examples/python/watch.py has it, with the same
// options and lines.
//
//     npm install
//     node watch.js --controller 127.0.0.1:8090 emojivoto:web-0
//
// Give it --ack only if something really enforces the policy: the controller counts acknowledgements.

const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const { parseArgs } = require("node:util");
const grpc = require("@grpc/grpc-js");
const protobuf = require("protobufjs");
const { Port, WrongBase } = require("./port.js");
const { Refused, read, which } = require("./readable.js");

// Codes that say that asking again the same way cannot help.
const FINAL = new Set([
  grpc.status.INVALID_ARGUMENT,
  grpc.status.DEADLINE_EXCEEDED,
  grpc.status.OUT_OF_RANGE,
  grpc.status.UNAUTHENTICATED,
  grpc.status.UNIMPLEMENTED,
]);

const PROTO = path.resolve(__dirname, "../../../proto");
const METHOD = "/portcullis.policy.v1.PolicyDiscovery/Watch";

function load(folder) {
  const root = new protobuf.Root();
  const own = root.resolvePath;
  root.resolvePath = (origin, target) =>
    target.startsWith("portcullis/") ? path.join(folder, target) : own.call(root, origin, target);
  root.loadSync("portcullis/policy/v1/discovery.proto", { keepCase: true }).resolveAll();
  return (name) => root.lookup(`portcullis.policy.v1.${name}`);
}

function say(event, fields) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

class Watch {
  ports = new Map();
  workloadRevision = null;
  updates = 0;

  constructor(options, types) {
    this.options = options;
    this.request = types("WatchRequest");
    this.responseType = types("WatchResponse");
    this.undeclared = types("Undeclared");
  }

  /** One stream. Resolves with its status code, or null if there was enough. */
  run(client, metadata) {
    const encode = (message) => Buffer.from(this.request.encode(message).finish());
    const decode = (bytes) => this.responseType.decode(bytes);
    const call = client.makeBidiStreamRequest(METHOD, encode, decode, metadata);
    const write = (message) => call.write(message);
    return new Promise((resolve) => {
      let own = null;
      call.on("data", (response) => {
        if (own !== null) return;
        try {
          this.response(response, write);
        } catch (error) {
          own = { code: grpc.status.UNKNOWN, details: error.message };
        }
        if (this.done()) own = { code: null };
        if (own) call.cancel();
      });
      // The status comes as well.
      call.on("error", () => {});
      call.on("status", (status) => {
        const { code, details } = own ?? status;
        if (code !== null) say("ended", { code: grpc.status[code], details });
        resolve(code);
      });
      this.begin(write);
    });
  }

  begin(write) {
    const applied = [...this.ports].map(([port, { revision }]) => ({ port, revision }));
    const { workload, features, port } = this.options;
    const hello = { workload, features: [...features].sort(), applied, client: "watch.js" };
    if (this.workloadRevision) hello.workload_revision = this.workloadRevision;
    write({ hello });
    if (port.length) write({ subscribe: { ports: port } });
  }

  response(response, write) {
    const kind = which(response, "kind");
    if (kind === "workload") this.workload(response.workload, write);
    else if (kind === "port") this.update(response.port, write);
    // From a newer server; what we cannot read we could not enforce.
    else throw new Error("a message of a kind that is not known here");
  }

  workload(workload, write) {
    try {
      read(workload, "");
    } catch (error) {
      // With port 0 and no revision: the Workload. The server ends the stream.
      this.refuse(write, error, { port: 0 });
      return;
    }
    this.workloadRevision = workload.revision;
    const watched = new Set([...workload.declared_ports, ...this.options.port]);
    for (const port of this.ports.keys()) if (!watched.has(port)) this.ports.delete(port);
    say("workload", {
      name: workload.name,
      declared_ports: workload.declared_ports,
      undeclared: this.undeclared.valuesById[workload.undeclared],
    });
  }

  update(update, write) {
    const { port: number, revision } = update;
    let port;
    try {
      port = (this.ports.get(number) ?? new Port()).apply(update, this.options.features);
    } catch (error) {
      if (error instanceof WrongBase) {
        // What we have stays in force until the full state arrives.
        write({ resync: { port: number } });
        say("resync", { port: number });
      } else {
        this.refuse(write, error, { port: number, revision });
      }
      return;
    }
    this.ports.set(number, port);
    this.updates += 1;
    // Only now: everything that decides would use the new state by this line. The revision goes back
    // as it was decoded; as a JSON number its 64 bits would be rounded, and match nothing.
    if (this.options.ack) write({ ack: { port: number, revision } });
    const full = !Object.hasOwn(update, "base");
    say("port", { port: number, routes_changed: update.routes.length, full, ...port.describe() });
  }

  refuse(write, error, about) {
    if (!(error instanceof Refused)) throw error;
    write({ nack: { ...about, reason: error.message, field_path: error.fieldPath } });
    say("refused", { port: about.port, field_path: error.fieldPath, reason: error.message });
  }

  done() {
    return this.options.updates !== null && this.updates >= this.options.updates;
  }
}

/** A client, and the metadata of its calls. Files are read anew for each: they are renewed. */
function connect(options) {
  // Messages are bounded on both sides; the controller's default is 16 MiB. A silent connection is
  // pinged no more often than the controller pings.
  const settings = {
    "grpc.max_receive_message_length": 16 * 1024 * 1024,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 20_000,
  };
  const metadata = new grpc.Metadata();
  if (!options.roots) {
    return [new grpc.Client(options.controller, grpc.credentials.createInsecure(), settings), metadata];
  }
  const file = (name) => (name ? fs.readFileSync(name) : null);
  const credentials = grpc.credentials.createSsl(file(options.roots), file(options.key), file(options.cert));
  // The controller's certificate is for its identity, not for the address that it has.
  settings["grpc.ssl_target_name_override"] = options.name;
  if (options.token) metadata.set("authorization", `Bearer ${file(options.token).toString().trim()}`);
  return [new grpc.Client(options.controller, credentials, settings), metadata];
}

function isLoopback(controller) {
  const host = controller.slice(0, controller.lastIndexOf(":"));
  return host === "localhost" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

function usage(problem) {
  process.stderr.write(`error: ${problem}\n`);
  process.exit(2);
}

function parse() {
  const one = { type: "string" };
  const many = { type: "string", multiple: true, default: [] };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      controller: { ...one, default: "127.0.0.1:8090" }, proto: { ...one, default: PROTO },
      "tls-roots": one, "tls-name": one, "tls-cert": one, "tls-key": one, token: one,
      port: many, feature: many, ack: { type: "boolean", default: false }, updates: one,
    },
  });
  const options = {
    controller: values.controller, proto: values.proto, workload: positionals[0],
    roots: values["tls-roots"], name: values["tls-name"], cert: values["tls-cert"],
    key: values["tls-key"], token: values.token, port: values.port.map(Number),
    features: new Set(values.feature), ack: values.ack,
    updates: values.updates === undefined ? null : Number(values.updates),
  };
  if (positionals.length !== 1) usage("give the workload's token, for example namespace:pod");
  if (!options.roots !== !options.name) usage("--tls-roots and --tls-name belong together");
  if (!options.cert !== !options.key) usage("--tls-cert and --tls-key belong together");
  if ((options.cert || options.token) && !options.roots) {
    usage("a certificate or a token needs --tls-roots and --tls-name");
  }
  if (!options.roots && !isLoopback(options.controller)) {
    usage(`${options.controller} is not loopback: give --tls-roots and --tls-name`);
  }
  return options;
}

async function main() {
  const options = parse();
  const watch = new Watch(options, load(options.proto));
  for (let backoff = 100; ; ) {
    const began = performance.now();
    const [client, metadata] = connect(options);
    const code = await watch.run(client, metadata);
    client.close();
    if (code === null) return 0;
    if (FINAL.has(code) && !renewed(options, code, metadata)) return 1;
    // A stream that lasted starts the back-off anew.
    backoff = performance.now() - began >= 10_000 ? 100 : Math.min(backoff * 2, 10_000);
    await sleep(backoff * (0.5 + Math.random()));
  }
}

/** True if a token expired and its file has another one by now. */
function renewed(options, code, metadata) {
  if (code !== grpc.status.UNAUTHENTICATED || !options.token) return false;
  const token = fs.readFileSync(options.token, "utf8").trim();
  return metadata.get("authorization")[0] !== `Bearer ${token}`;
}

main().then((code) => process.exit(code));
