// A client of Node's http and fetch. It runs every case against 127.0.0.1:PORT and prints what it observed
// as JSON.
import { Agent, request } from "node:http";

const port = process.argv[2];
const left = new Set(["date", "connection", "keep-alive", "server"]);

function fields(raw) {
  const lines = [];
  for (let at = 0; at < raw.length; at += 2) {
    if (!left.has(raw[at].toLowerCase())) lines.push(`${raw[at]}: ${JSON.stringify(raw[at + 1])}`);
  }
  // Names are compared without case, and so is their order.
  return lines.length > 20 ? `${lines.length} fields` : lines.map((line) => line.toLowerCase()).sort().join(", ");
}

const short = (text) => (text.length > 2000 ? `${text.length} bytes` : text);

// Sends a request; `more` writes its body and ends it.
function ask(method, path, { headers, more = (sent) => sent.end(), agent = false } = {}) {
  return new Promise((done) => {
    const seen = [];
    const sent = request({ port, host: "127.0.0.1", method, path, headers, agent, maxHeaderSize: 100000 });
    sent.on("information", (info) => seen.push(`${info.statusCode} ${fields(info.rawHeaders)}`));
    sent.on("continue", () => seen.push("continue"));
    sent.on("error", (error) => done([...seen, error.code].join("; ")));
    sent.on("upgrade", (answer, socket, head) => {
      let heard = head.toString();
      socket.write("world");
      socket.on("data", (piece) => {
        heard += piece;
        if (heard.length < 11) return;
        socket.destroy();
        done(`${answer.statusCode} ${fields(answer.rawHeaders)} ${heard}`);
      });
    });
    sent.on("response", async (answer) => {
      let [text, end] = ["", "whole"];
      answer.setEncoding("latin1");
      try {
        for await (const piece of answer) text += piece;
      } catch (error) {
        end = error.code;
      }
      seen.push(`${answer.httpVersion} ${answer.statusCode} ${JSON.stringify(answer.statusMessage)}`,
        fields(answer.rawHeaders), short(text), end, fields(answer.rawTrailers));
      done(seen.join("; "));
    });
    more(sent);
  });
}

async function fetched(path, options) {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, options);
    const raw = [...answer.headers].flat();
    return `${answer.status} ${answer.statusText}; ${fields(raw)}; ${short(await answer.text())}`;
  } catch (error) {
    return `${error.message} ${error.cause?.code}`;
  }
}

async function events() {
  const answer = await fetch(`http://127.0.0.1:${port}/events`);
  const pieces = answer.body.getReader();
  const text = async () => Buffer.from((await pieces.read()).value ?? "end").toString();
  return [await text(), await fetched("/release", { method: "POST" }), await text(), await text()].join("; ");
}

const noted = () => ask("GET", "/noted");

// Gives a request up once the application has it.
async function givenUp(path, headers, body, end) {
  await ask("POST", path, {
    headers,
    more: (sent) => {
      sent.write(body);
      setTimeout(() => end(sent), 300);
    },
  });
  return noted();
}

async function kept() {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const seen = [];
  for (const path of ["/echo", "/none/204", "/none/304", "/trailers", "/none/205", "/large", "/echo"]) {
    seen.push(await ask("GET", path, { agent }));
  }
  agent.destroy();
  return seen.join("\n");
}

const write = (...pieces) => (sent) => {
  for (const piece of pieces) sent.write(piece);
  sent.end();
};
const cases = {
  get: () => ask("GET", "/echo?a=%20b&c=d|e", { headers: { "X-MiXed": ["1", "2"], "X-Empty": "", "X-Latin": "caf\xe9" } }),
  "fetched get": () => fetched("/echo", { headers: { accept: "*/*" } }),
  "fetched post": () => fetched("/echo", { method: "POST", body: "body" }),
  "fetched stream": () => fetched("/echo", { method: "POST", body: new Blob(["bo", "dy"]).stream(), duplex: "half" }),
  "fetched fields": () => fetched("/fields"),
  "fetched cut": () => fetched("/cut"),
  "fetched reset": () => fetched("/reset"),
  "fetched 204": () => fetched("/none/204"),
  chunks: () => ask("POST", "/echo", { more: write("bo", "dy") }),
  length: () => ask("POST", "/echo", { headers: { "Content-Length": 4 }, more: write("body") }),
  "get body": () => ask("GET", "/echo", { headers: { "Content-Length": 4 }, more: write("body") }),
  trailers: () => ask("POST", "/echo", {
    headers: { Trailer: "X-Sum" },
    more: (sent) => {
      sent.write("body");
      sent.addTrailers({ "X-Sum": "4" });
      sent.end();
    },
  }),
  expect: () => ask("POST", "/echo", {
    headers: { Expect: "100-continue", "Content-Length": 4 },
    more: (sent) => {
      sent.flushHeaders();
      sent.on("continue", () => sent.end("body"));
    },
  }),
  "expect no": () => ask("POST", "/denied", {
    headers: { Expect: "100-continue", "Content-Length": 4 },
    more: (sent) => sent.flushHeaders(),
  }),
  fields: () => ask("GET", "/fields"),
  phrase: () => ask("GET", "/phrase"),
  bare: () => ask("GET", "/bare"),
  hints: () => ask("GET", "/hints"),
  head: () => ask("HEAD", "/head"),
  204: () => ask("GET", "/none/204"),
  205: () => ask("GET", "/none/205"),
  304: () => ask("GET", "/none/304"),
  "answer trailers": () => ask("GET", "/trailers", { headers: { TE: "trailers" } }),
  large: () => ask("GET", "/large"),
  reset: () => ask("GET", "/reset"),
  cut: () => ask("GET", "/cut"),
  last: () => ask("GET", "/last"),
  events,
  upgrade: () => ask("GET", "/upgrade", {
    headers: { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Key": "a key" },
  }),
  "length cut": () => givenUp("/upload", { "Content-Length": 10 }, "half", (sent) => sent.socket.end()),
  "chunks cut": () => givenUp("/upload", {}, "half", (sent) => sent.socket.end()),
  "chunks reset": () => givenUp("/upload", {}, "half", (sent) => sent.socket.resetAndDestroy()),
  kept,
};
const seen = {};
for (const [name, run] of Object.entries(cases)) {
  const late = new Promise((done) => setTimeout(done, 15000, "late").unref());
  seen[name] = await Promise.race([run(), late]);
}
console.log(JSON.stringify(seen));
process.exit();
