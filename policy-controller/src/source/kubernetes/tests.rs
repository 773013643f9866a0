//! What the pure parts promise.
