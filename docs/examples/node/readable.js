"use strict";
// Refuses messages in which anything cannot be read: an enum at 0 or with an unknown value, a oneof or
// a message that is not set, and values that mean nothing. See "The client's duties" of docs/watch-api.md.

const { Enum, Type } = require("protobufjs");

/** A message that must not be applied, and where in it. */
class Refused extends Error {
  constructor(fieldPath, reason) {
    super(reason);
    this.fieldPath = fieldPath;
  }
}

/** Every reason to deny. One that is not known here refuses the update that has it. */
const REASONS = new Set([
  "no_route", "unauthorized", "cannot_tell", "tls_required", "protocol_mismatch", "server_invalid",
  "routes_invalid", "route_invalid", "proxy_unsupported", "not_delegated", "port_undeclared",
  "policy_pending", "policy_expired", "rate_limited", "rate_limit_invalid", "revoked",
  "target_malformed", "target_dot_segment", "target_empty_segment", "target_encoded_slash",
  "target_backslash", "target_control", "target_bad_encoding", "target_path_parameter",
  "target_non_ascii", "target_not_canonical",
  "target_less_than", "target_greater_than", "target_grave_accent", "host_duplicate", "host_mismatch", "host_invalid",
  "host_missing", "header_obs_text", "header_outer_blanks",
]);

/** Messages and oneofs that need not be there. */
const ABSENT = new Set([
  "Facts.logs", "Exemption.request", "PortHeader.rate_limit", "Redirect.path",
  "Timeouts.request", "Timeouts.response", "Timeouts.idle",
].map((name) => `.portcullis.policy.v1.${name}`));

/** No decision depends on these: what cannot be read in them is left out. */
const UNREAD = new Set([".portcullis.policy.v1.Logs"]);

const CHECKS = {
  ".portcullis.policy.v1.Network": (network, path) => {
    const most = bits(network.address, `${path}.address`);
    if (network.prefix_length > most) {
      throw new Refused(`${path}.prefix_length`, `must be at most ${most}`);
    }
  },
  ".portcullis.policy.v1.Facts": (facts, path) => {
    for (const name of ["pod_addresses", "pod_gateways"]) {
      facts[name].forEach((value, at) => bits(value, `${path}.${name}[${at}]`));
    }
  },
  ".portcullis.policy.v1.Origin": (origin, path) => {
    if (origin.objects && origin.objects.chain.length === 0) {
      throw new Refused(`${path}.objects.chain`, "must not be empty");
    }
  },
  ".portcullis.policy.v1.Redirect": (redirect, path) => {
    if (redirect.status < 300 || redirect.status > 399) {
      throw new Refused(`${path}.status`, `must be between 300 and 399, is ${redirect.status}`);
    }
  },
};

function bits(address, path) {
  if (address.length !== 4 && address.length !== 16) {
    throw new Refused(path, `must have 4 or 16 bytes, has ${address.length}`);
  }
  return address.length * 8;
}

/** True if a field was sent. The decoder leaves what was not to the prototype. */
function has(message, name) {
  return Object.hasOwn(message, name) && message[name] != null;
}

/** The name of the member of a oneof that is set, if any. */
function which(message, oneof) {
  return message.$type.oneofs[oneof].oneof.find((name) => has(message, name));
}

/** Reads a message with everything in it, or throws where something cannot be read. */
function read(message, path) {
  const type = message.$type;
  for (const oneof of type.oneofsArray) {
    const optional = oneof.oneof.length === 1 && oneof.name.startsWith("_");
    if (!optional && !ABSENT.has(oneof.fullName) && !which(message, oneof.name)) {
      throw new Refused(path, `none of ${oneof.oneof.join(", ")} is set, or one not known here`);
    }
  }
  for (const field of type.fieldsArray) {
    const place = path ? `${path}.${field.name}` : field.name;
    const value = message[field.name];
    if (field.map) continue;
    if (field.repeated) {
      value.forEach((element, at) => readValue(field, element, `${place}[${at}]`));
    } else if (has(message, field.name)) {
      readValue(field, value, place);
    } else if (!field.partOf && field.resolvedType instanceof Type) {
      if (!ABSENT.has(field.fullName)) throw new Refused(place, "must be set");
    } else if (!field.partOf) {
      // Without presence, 0 is not sent.
      readValue(field, field.defaultValue, place);
    }
  }
  CHECKS[type.fullName]?.(message, path);
}

function readValue(field, value, place) {
  if (field.resolvedType instanceof Type) {
    if (!UNREAD.has(field.resolvedType.fullName)) read(value, place);
  } else if (field.resolvedType instanceof Enum) {
    if (value === 0 || !(value in field.resolvedType.valuesById)) {
      throw new Refused(place, `value ${value} is not known here`);
    }
  } else if (field.name === "deny" && !REASONS.has(value)) {
    throw new Refused(place, `reason \`${value}\` is not known here`);
  } else if (field.name === "key" && String(value) === "0") {
    throw new Refused(place, "must not be 0");
  } else if (field.name === "regex") {
    compile(value, place);
  }
}

/**
 * The dialect is that of RE2, without look-around and references. It has flags within an expression, for
 * example `(?i:Admin)`, which the RegExp of older JavaScript takes apart from it alone.
 */
function compile(text, place) {
  const whole = /^\(\?([ims]+):(.*)\)$/s.exec(text) ?? /^\(\?([ims]+)\)(.*)$/s.exec(text);
  const [flags, expression] = whole ? whole.slice(1) : ["", text];
  try {
    return new RegExp(`^(?:${expression})$`, `u${flags}`);
  } catch (error) {
    throw new Refused(place, `\`${text}\` is not an expression: ${error.message}`);
  }
}

module.exports = { Refused, has, read, which };
