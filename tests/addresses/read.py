"""What Python makes of the texts of corpus.json: its own module, strictly and not, and the C library.

Prints, for each reader, the places of the probes that each text contains; null: it is refused.
"""

import ipaddress
import json
import socket
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    known = json.load(file)
probes = [ipaddress.ip_address(probe) for probe in known["probes"]]


def c_library(text):
    if "/" in text:
        raise ValueError("no address")
    return ipaddress.ip_network(socket.inet_aton(text))


READERS = {
    "python ipaddress": ipaddress.ip_network,
    "python ipaddress strict=False": lambda text: ipaddress.ip_network(text, strict=False),
    "inet_aton": c_library,
}


def within(reader, text):
    try:
        network = reader(text)
    except (ValueError, OSError):
        return None
    return [place for place, probe in enumerate(probes) if probe in network]


print(json.dumps({name: [within(reader, row["text"]) for row in known["texts"]] for name, reader in READERS.items()}))
