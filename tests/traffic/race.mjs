// A client of Node's http that sends two requests on a kept connection, of each method, to 127.0.0.1:PORT. It
// prints what it observed as JSON.
import { Agent, request } from "node:http";

const port = process.argv[2];

function ask(agent, method) {
  return new Promise((done) => {
    const headers = method === "POST" ? { "Content-Length": 4 } : {};
    const sent = request({ port, host: "127.0.0.1", method, path: "/", headers, agent });
    sent.on("error", (error) => done(error.code));
    sent.on("response", async (answer) => {
      let text = "";
      for await (const piece of answer) text += piece;
      done(`${answer.statusCode} ${text}`);
    });
    sent.end(method === "POST" ? "body" : undefined);
  });
}

const seen = {};
for (const method of ["GET", "POST"]) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  seen[method] = `${await ask(agent, method)}; ${await ask(agent, method)}`;
  agent.destroy();
}
console.log(JSON.stringify(seen));
