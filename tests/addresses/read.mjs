// What Node.js makes of the texts of corpus.json: its lists of blocks, and its URLs, which read hosts as
// browsers do.
//
// Prints, for each reader, the places of the probes that each text contains; null: it is refused.
import { readFileSync } from "node:fs";
import net from "node:net";

const { probes, texts } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const family = (address) => (net.isIP(address) === 6 ? "ipv6" : "ipv4");

function listed(text) {
  const slash = text.indexOf("/");
  const address = slash < 0 ? text : text.slice(0, slash);
  if (net.isIP(address) === 0) return null;
  const list = new net.BlockList();
  try {
    if (slash < 0) list.addAddress(address, family(address));
    else list.addSubnet(address, Number(text.slice(slash + 1)), family(address));
  } catch {
    return null;
  }
  return (probe) => list.check(probe, family(probe));
}

function asHost(text) {
  if (text.includes("/")) return null;
  try {
    const host = new URL(`http://${text.includes(":") ? `[${text}]` : text}/`).hostname;
    const address = host.replace(/^\[|\]$/g, "");
    return net.isIP(address) === 0 ? null : listed(address);
  } catch {
    return null;
  }
}

const places = (contains) =>
  contains && probes.flatMap((probe, place) => (contains(probe) ? [place] : []));
const read = (reader) => texts.map(({ text }) => places(reader(text)));
console.log(JSON.stringify({ "node BlockList": read(listed), "node URL": read(asHost) }));
