//! Cost of the wire: both conversions of both APIs.
//!
//! `bench/functions` runs it; `cargo bench -p policy-proto` measures time alone.

#![allow(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use policy_core::feature::Feature;
use policy_core::testing::benchmark::{self, Case};
use policy_core::{Facts, Revision, ServerPolicy};
use policy_measure::Function;
use policy_proto::compat::{self, EncodeOptions};
use policy_proto::linkerd::inbound::Server;
use policy_proto::messages::PortUpdate;
use policy_proto::native::{EncodedPort, PortState, diff, encode_port};
use prost::Message;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

fn features() -> BTreeSet<Feature> {
    Feature::ALL.into_iter().collect()
}

/// A policy's full state as sent to our clients.
fn native(policy: &ServerPolicy) -> Vec<u8> {
    full(&encode_port(policy, &features()))
}

fn full(port: &EncodedPort) -> Vec<u8> {
    port.full(NonZeroU16::MIN, &revision(port)).encode_to_vec()
}

fn revision(port: &EncodedPort) -> Revision {
    Revision { content: port.content(), ..Revision::default() }
}

/// The policy without its first route.
fn with_one_route_less(case: Case) -> [EncodedPort; 2] {
    let mut less = case.policy.clone();
    less.routes.routes = less.routes.routes.iter().skip(1).cloned().collect();
    [case.policy, less].map(|policy| encode_port(&policy, &features()))
}

fn changed(ports: &[EncodedPort; 2]) -> Vec<u8> {
    let [before, after] = ports;
    diff(before, after, NonZeroU16::MIN, &revision(after)).encode_to_vec()
}

fn decoded(state: &mut PortState, bytes: &[u8]) -> Arc<ServerPolicy> {
    let update = PortUpdate::decode(bytes).expect("it was encoded");
    state.apply(&update).expect("it was encoded")
}

fn natives(size: &str, case: fn() -> Case) -> Vec<Function> {
    let with_state = move || {
        let ports = with_one_route_less(case());
        let [before, _] = &ports;
        let mut state = PortState::new();
        decoded(&mut state, &full(before));
        (state, changed(&ports))
    };
    // Made once, and cloned for each call.
    let ready = std::cell::OnceCell::new();
    vec![
        Function::shared(&format!("encode-native-{size}"), move || case().policy, native),
        Function::shared(
            &format!("encode-native-change-{size}"),
            move || with_one_route_less(case()),
            changed,
        ),
        Function::shared(
            &format!("decode-native-{size}"),
            move || native(&case().policy),
            |bytes| decoded(&mut PortState::new(), bytes),
        ),
        Function::new(
            &format!("decode-native-change-{size}"),
            move || ready.get_or_init(with_state).clone(),
            |(state, bytes)| decoded(state, bytes),
        ),
    ]
}

fn compatible(policy: &ServerPolicy) -> Vec<u8> {
    let options = EncodeOptions::default();
    compat::encode(policy, &Facts::default(), &options).server.encode_to_vec()
}

fn compatibles(size: &str, case: fn() -> Case) -> Vec<Function> {
    vec![
        Function::shared(&format!("encode-compatible-{size}"), move || case().policy, compatible),
        Function::shared(
            &format!("decode-compatible-{size}"),
            move || compatible(&case().policy),
            |bytes| {
                let server = Server::decode(bytes.as_slice()).expect("it was encoded");
                compat::decode(&server).expect("it was encoded")
            },
        ),
    ]
}

fn main() {
    let many = || benchmark::mixed(10_000);
    let all = [
        natives("1-rule", benchmark::one),
        natives("10000-routes", many),
        compatibles("1-rule", benchmark::one),
        compatibles("10000-routes", many),
    ];
    policy_measure::main(all.into_iter().flatten().collect());
}
