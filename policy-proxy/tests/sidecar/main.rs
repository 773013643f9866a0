//! The sidecar on real sockets, with a policy store filled by hand.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

#[cfg(test)]
mod accept;
#[cfg(test)]
mod client_headers;
#[cfg(test)]
mod decisions;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod grpc;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http1;
#[cfg(test)]
mod http1_over_http2;
#[cfg(test)]
mod http2;
#[cfg(test)]
mod http2_ends;
#[cfg(test)]
mod http2_headers;
#[cfg(test)]
mod http2_heads;
#[cfg(test)]
mod http2_interim;
#[cfg(test)]
mod http2_limits;
#[cfg(test)]
mod http2_losses;
#[cfg(test)]
mod http2_pings;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod inspection;
#[cfg(test)]
mod keep_alive;
#[cfg(test)]
mod layer;
#[cfg(test)]
mod leaks;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod opaque;
#[cfg(test)]
mod outbound;
#[cfg(test)]
mod ports;
#[cfg(test)]
mod resets;
#[cfg(test)]
mod reverification;
#[cfg(test)]
mod revocation;
#[cfg(test)]
mod rewrites;
#[cfg(test)]
mod server_first;
#[cfg(test)]
mod small_frames;
#[cfg(test)]
mod stalls;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod timeouts;
#[cfg(test)]
mod timeouts_under_load;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod upstream;
