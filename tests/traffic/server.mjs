// An application of Node's http. It prints its port, and serves until its standard input ends.
import { createServer } from "node:http";

const left = new Set(["connection", "forwarded", "host", "http2-settings", "l5d-client-id", "l5d-connection-secure", "upgrade"]);
const noted = [];
const asking = [];
let release = () => {};

function note(text) {
  const asks = asking.shift();
  if (asks) asks(text);
  else noted.push(text);
}

function fields(raw) {
  const lines = [];
  for (let at = 0; at < raw.length; at += 2) {
    if (!left.has(raw[at].toLowerCase())) lines.push(`${raw[at].toLowerCase()}: ${JSON.stringify(raw[at + 1])}`);
  }
  return lines.sort();
}

async function body(request) {
  let text = "";
  try {
    for await (const piece of request) text += piece;
    return [text, "whole"];
  } catch (error) {
    return [text, error.code];
  }
}

const paths = {
  async "/echo"(request, response) {
    const [text, read] = await body(request);
    response.end(JSON.stringify({
      method: request.method, target: request.url, version: request.httpVersion, fields: fields(request.rawHeaders),
      body: text, trailers: fields(request.rawTrailers), read,
    }));
  },
  "/fields"(request, response) {
    response.setHeader("Set-Cookie", ["a=1; Path=/", "b=2"]);
    response.setHeader("x-MiXed", ["as it is", ""]);
    response.setHeader("X-Latin", "caf\xe9");
    response.end("fields");
  },
  "/phrase"(request, response) {
    response.writeHead(299, "Odd: thing");
    response.end("ok");
  },
  "/bare"(request, response) {
    response.socket.end("HTTP/1.1 299 \r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
  },
  "/hints"(request, response) {
    response.writeEarlyHints({ link: "</a.css>; rel=preload" });
    response.writeProcessing();
    response.end("hinted");
  },
  "/denied"(request, response) {
    response.writeHead(401);
    response.end("denied");
  },
  "/head"(request, response) {
    response.setHeader("Content-Length", 12345);
    response.end();
  },
  "/trailers"(request, response) {
    if (request.httpVersion !== "1.0") response.setHeader("Trailer", "X-Sum");
    response.write("body");
    response.addTrailers({ "X-Sum": "4", "X-Late": "unannounced" });
    response.end();
  },
  "/large"(request, response) {
    for (let n = 0; n < 40; n++) response.setHeader(`X-Large-${n}`, "x".repeat(1000));
    response.end("y".repeat(1000000));
  },
  "/reset"(request, response) {
    response.writeHead(200, { "Content-Length": 10 });
    response.write("half");
    setTimeout(() => response.socket.resetAndDestroy(), 100);
  },
  "/cut"(request, response) {
    response.write("half");
    setTimeout(() => response.socket.end(), 100);
  },
  "/last"(request, response) {
    response.setHeader("Connection", "close");
    response.end("last");
  },
  "/until-close"(request, response) {
    response.socket.end("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end");
  },
  "/events"(request, response) {
    response.setHeader("Content-Type", "text/event-stream");
    response.write("data: 1\n\n");
    release = () => response.end("data: 2\n\n");
  },
  "/release"(request, response) {
    release();
    response.end();
  },
  async "/early"(request, response) {
    response.write("early");
    const [text, read] = await body(request);
    response.end(` and ${text.length} ${read}`);
  },
  async "/upload"(request) {
    note((await body(request))[1]);
  },
  "/wait"(request, response) {
    response.on("close", () => note("given up"));
  },
  async "/noted"(request, response) {
    response.end(noted.shift() ?? await new Promise((ready) => asking.push(ready)));
  },
};

const server = createServer({ maxHeaderSize: 100000 }, (request, response) => {
  const path = request.url.split("?")[0];
  if (path.startsWith("/none/")) {
    response.writeHead(Number(path.slice(6)), { ETag: '"a"' });
    response.end();
    return;
  }
  const found = paths[path];
  if (found) return found(request, response);
  response.writeHead(404);
  response.end();
});
server.on("checkContinue", (request, response) => {
  if (request.url !== "/denied") response.writeContinue();
  server.emit("request", request, response);
});
server.on("upgrade", (request, socket, head) => {
  socket.on("error", () => {});
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${request.headers["sec-websocket-key"]}\r\n\r\nhello `);
  socket.write(head);
  socket.pipe(socket);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume();
