// A server of Node's http module with its default settings, which answers every request with what it
// read.
//
// Prints its version and its port, then serves until its standard input ends.
'use strict';

const http = require('node:http');

const field = (name, value, encoding) =>
  value === undefined ? '' : `${name}=${Buffer.from(value, encoding).toString('hex')},`;

// What a function makes of a path; nothing where it throws, as decodeURIComponent does.
const attempt = (make) => {
  try {
    return make();
  } catch {
    return undefined;
  }
};

const server = http.createServer((request, response) => {
  const path = request.url.split('?', 1)[0];
  const read =
    'Routed: ' +
    field('method', request.method, 'latin1') +
    field('target', request.url, 'latin1') +
    // Routers match literal text on this (Express, Koa).
    field('path', path, 'latin1') +
    // Routers that decode before they match; reserved characters stay (Fastify).
    field('decode_uri', attempt(() => decodeURI(path)), 'utf8') +
    // The values of parameters.
    field('component', attempt(() => path.split('/').map(decodeURIComponent).join('/')), 'utf8') +
    // Applications that parse by themselves.
    field('url', attempt(() => new URL(request.url, 'http://a').pathname), 'utf8') +
    ';';
  response.setHeader('Routed', read.slice('Routed: '.length));
  response.end(read);
});

server.listen(0, '127.0.0.1', () => console.log(process.version, server.address().port));
process.stdin.resume();
process.stdin.on('end', () => process.exit());
