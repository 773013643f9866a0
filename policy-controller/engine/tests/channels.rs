//! The memory of the channels of which a controller has one for each pod and each port that is
//! watched.
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test")]

use allocation_counter::measure;
use policy_engine::latest;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::watch;

/// A channel with one receiver that waits, as most have.
#[test]
fn a_channel_takes_a_fraction_of_the_room_of_one_of_tokio() {
    let value = Arc::new(());
    let mut kept = None;
    let ours = measure(|| {
        let sender = latest::channel(value.clone());
        let mut receiver = sender.subscribe();
        let waiting = receiver.poll_changed(&Context::from_waker(Waker::noop()));
        assert!(waiting.is_pending());
        kept = Some((sender, receiver));
    });
    drop(kept);
    let mut kept = None;
    let theirs = measure(|| kept = Some(watch::channel(value.clone())));
    drop(kept);
    let (ours, theirs) = (ours.bytes_current, theirs.bytes_current);
    println!("{ours} bytes, and {theirs} of tokio::sync::watch");
    assert!(ours * 3 <= theirs, "{ours} bytes, and {theirs} of tokio::sync::watch");
}
