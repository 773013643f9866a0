"use strict";
// The policy of one port: the state that updates change.

const { Refused, has, read, which } = require("./readable.js");

/** An update that does not build on what this client has. */
class WrongBase extends Error {}

class Port {
  revision = null;
  header = null;
  authorizations = new Map();
  serverAuthorizations = [];
  routes = new Map();
  routeOrder = [];

  /** Returns the state after `update`; this one is left as it is. */
  apply(update, features) {
    update.required_features.forEach((name, at) => {
      if (!features.has(name)) {
        throw new Refused(`required_features[${at}]`, `\`${name}\` is not known here`);
      }
    });
    if (!has(update, "revision")) throw new Refused("revision", "must be set");
    const next = new Port();
    if (has(update, "base")) {
      // 64 bits: a number of JavaScript has 53. Text compares as it should.
      if (String(this.revision?.content) !== String(update.base)) throw new WrongBase();
      next.header = this.header;
      next.authorizations = new Map(this.authorizations);
      next.serverAuthorizations = this.serverAuthorizations;
      next.routes = new Map(this.routes);
      next.routeOrder = this.routeOrder;
    }
    if (has(update, "header")) {
      read(update.header, "header");
      next.header = update.header;
    }
    if (!next.header) throw new Refused("header", "must be set");
    change(next.authorizations, update, "removed_authorizations", "authorizations");
    change(next.routes, update, "removed_routes", "routes");
    next.serverAuthorizations = splice(next.serverAuthorizations, update, "server_authorizations");
    next.routeOrder = splice(next.routeOrder, update, "route_order");
    next.check();
    next.revision = update.revision;
    return next;
  }

  /** Every key must stand for something: a grant that is not there is no grant. */
  check() {
    const granted = (keys, place) => {
      for (const key of keys) {
        if (!this.authorizations.has(String(key))) throw new Refused(place, `no authorization ${key}`);
      }
    };
    granted(this.serverAuthorizations, "server_authorizations");
    this.header.exemptions.forEach((exemption, at) => {
      granted([exemption.authorization], `header.exemptions[${at}].authorization`);
    });
    for (const key of this.routeOrder) {
      const route = this.routes.get(key);
      if (!route) throw new Refused("route_order", `no route ${key}`);
      granted(route.authorizations, "routes");
    }
  }

  /** The gist, for people and tests. */
  describe() {
    const { owner, protocol } = this.header;
    return {
      owner: owner.server ? owner.server.name : owner.default,
      protocol: which(protocol, "kind"),
      deny: has(this.header, "deny") ? this.header.deny : null,
      authorizations: this.serverAuthorizations.map((key) => {
        const { source } = this.authorizations.get(key);
        return source.object ? source.object.name : source.default;
      }),
      routes: this.routeOrder.map((key) => {
        const { origin } = this.routes.get(key);
        return origin.objects ? origin.objects.chain.at(-1).name : which(origin, "kind");
      }),
    };
  }
}

/** Removals come before what is new or changed. */
function change(known, update, removed, changed) {
  for (const key of update[removed]) known.delete(String(key));
  update[changed].forEach((entry, at) => {
    read(entry, `${changed}[${at}]`);
    known.set(String(entry.key), entry);
  });
}

/** A list of keys after a KeyList: some kept at the start, new ones, some kept at the end. */
function splice(old, update, name) {
  if (!has(update, name)) return old;
  const { keep_first: first, keep_last: last, keys } = update[name];
  if (first + last > old.length) {
    throw new Refused(name, `keeps ${first + last} of ${old.length} keys`);
  }
  return [...old.slice(0, first), ...keys.map(String), ...old.slice(old.length - last)];
}

module.exports = { Port, WrongBase };
