//! The native messages: what is sent is what is received, whole and in changes.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use bytes::Bytes;
use http_body_util::StreamBody;
use policy_core::decision::Decision;
use policy_core::feature::Feature;
use policy_core::filter::{Failure, Filter, FilterKind, HeaderChange, Redirect, RedirectPath};
use policy_core::limit::{LimitOverride, RateLimit};
use policy_core::naive;
use policy_core::name::{ObjectRef, Source};
use policy_core::policy::{
    InformationalHeaders, Owner, PathHandling, Protocol, Route, ServerPolicy, Unmatched,
};
use policy_core::testing::{
    self, any_client, any_policy, any_policy_with_effects, any_request, any_rewrite, any_timeouts,
};
use policy_core::{
    AccessLogs, DefaultPolicy, DelegatedPath, Denied, Facts, HeaderRewrite, HostPattern, Logs,
    Origin, Predicate, Revision, RouteKind, RouteLabel, SegmentCondition, SegmentOperator,
    Timeouts, UnresolvedGrant,
};
use policy_proto::messages::watch_response::Kind as Said;
use policy_proto::messages::{self, PortUpdate, WatchResponse};
use policy_proto::native::{
    Applied, ApplyError, PortState, decode_facts, decode_revision, diff, encode_facts, encode_port,
    encode_revision,
    stream_decoder::{self, Response, Responses},
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message;
use std::collections::BTreeSet;
use std::num::{NonZeroU16, NonZeroU32};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

const PORT: NonZeroU16 = NonZeroU16::new(8080).unwrap();

fn all() -> BTreeSet<Feature> {
    Feature::ALL.into()
}

/// Over the wire and back.
fn sent(update: &PortUpdate) -> PortUpdate {
    PortUpdate::decode(update.encode_to_vec().as_slice()).unwrap()
}

/// The policy that results, the same whether routes and grants are read as messages or one by one.
fn apply(state: &mut PortState, update: &PortUpdate) -> Arc<ServerPolicy> {
    let before = state.clone();
    let policy = state.apply(&sent(update)).unwrap();
    let said = WatchResponse { kind: Some(Said::Port(update.clone())) };
    for size in [1, 7, 100, usize::MAX] {
        let Ok(Some(Response::Port(read))) = received(&said, size) else { panic!() };
        assert_eq!((read.port(), read.revision()), (update.port, update.revision.as_ref()));
        let mut piece_by_piece = before.clone();
        let result = piece_by_piece.apply_read(*read).unwrap();
        assert_eq!((&result.policy, piece_by_piece.revision()), (&policy, state.revision()));
        assert!(result.change.is_none_or(|change| change.leads_to(&result.policy)));
    }
    policy
}

/// The trailers of a stream.
type Ended = &'static [(&'static str, &'static str)];

/// Those of a stream that is well.
const OK: Ended = &[("grpc-status", "0")];

/// The first message of a stream that says `said` in pieces of at most `size` bytes.
fn received(said: &WatchResponse, size: usize) -> Result<Option<Response>, tonic::Status> {
    first(framed(&said.encode_to_vec()), size, OK)
}

/// A message as gRPC frames it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

/// The first message of a stream of these bytes that ends so.
fn first(bytes: Vec<u8>, size: usize, trailers: Ended) -> Result<Option<Response>, tonic::Status> {
    stream(bytes, size, trailers, |mut stream| Box::pin(async move { stream.message().await }))
}

type Frames = StreamBody<
    tokio_stream::Iter<std::vec::IntoIter<Result<http_body::Frame<Bytes>, tonic::Status>>>,
>;

/// Runs `then` on a stream of these bytes, in chunks of at most `size`.
fn stream<T>(
    bytes: Vec<u8>,
    size: usize,
    trailers: Ended,
    then: impl FnOnce(Responses<Frames>) -> Pin<Box<dyn Future<Output = T>>>,
) -> T {
    let trailers = trailers.iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
    });
    let end = http_body::Frame::trailers(trailers.collect());
    let piece = |piece: &[u8]| http_body::Frame::data(Bytes::copy_from_slice(piece));
    let frames: Vec<_> = bytes.chunks(size).map(piece).chain([end]).map(Ok).collect();
    let mut frames = Some(frames);
    let channel = tower::service_fn(move |_: http::Request<tonic::body::Body>| {
        let body = StreamBody::new(tokio_stream::iter(frames.take().unwrap()));
        std::future::ready(Ok::<_, tonic::Status>(http::Response::new(body)))
    });
    let work = async {
        then(stream_decoder::watch(channel, 1 << 20, tokio_stream::empty()).await.unwrap()).await
    };
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn messages_follow_one_another_until_the_server_ends_the_stream() {
    let workload = messages::Workload { declared_ports: vec![8080], ..Default::default() };
    let said = WatchResponse { kind: Some(Said::Workload(workload.clone())) };
    let nothing = framed(&WatchResponse::default().encode_to_vec());
    let bytes = [framed(&said.encode_to_vec()), nothing].concat();
    for size in [1, 3, usize::MAX] {
        let heard = stream(bytes.clone(), size, OK, |mut stream| {
            Box::pin(async move {
                let mut heard = Vec::new();
                while let Some(message) = stream.message().await.unwrap() {
                    heard.push(match message {
                        Response::Workload(workload) => Some(*workload),
                        Response::Port(_) => panic!("no port was named"),
                        Response::Unknown => None,
                    });
                }
                heard
            })
        });
        assert_eq!(heard, [Some(workload.clone()), None]);
    }
}

#[test]
fn a_stream_that_breaks_the_protocol_says_how() {
    let refused = |bytes: &[u8], trailers| {
        let status = first(bytes.to_vec(), usize::MAX, trailers).unwrap_err();
        (status.code(), status.message().to_owned())
    };
    let internal = |message: &str| (tonic::Code::Internal, message.to_owned());
    let denied: Ended = &[("grpc-status", "7"), ("grpc-message", "no")];
    assert_eq!(refused(b"", denied), (tonic::Code::PermissionDenied, "no".to_owned()));
    let within = internal("the stream ends within a message");
    assert_eq!(refused(&[0, 0, 0], OK), within);
    assert_eq!(refused(&[0, 0, 0, 0, 2, 0x12], OK), within);
    let compressed = internal("a message is compressed, but compression was not negotiated");
    assert_eq!(refused(&[1, 0, 0, 0, 0], OK), compressed);
    let long = "a message of 1048577 bytes is longer than 1048576".to_owned();
    assert_eq!(refused(&[0, 0, 16, 0, 1], OK), (tonic::Code::OutOfRange, long));
    // A port's update that is longer than its message, and one whose field is longer than it.
    for bytes in [&[0x12, 2, 8][..], &[0x12, 2, 0x32, 9, 0, 0]] {
        let message = "policy discovery: not a message: a field ends after its message";
        assert_eq!(refused(&framed(bytes), OK), internal(message));
    }
    let (code, _) = refused(&framed(&[0xff; 30]), OK);
    assert_eq!(code, tonic::Code::Internal);
}

#[test]
fn a_route_that_is_no_message_is_refused_by_its_field_and_the_rest_still_says_of_what() {
    let mut update = encode_port(&example().0, &all()).full(PORT, &Revision::default());
    update.routes.clear();
    // Field 9, which holds a message, holds a byte that is none.
    let port = [update.encode_to_vec(), vec![0x4a, 1, 0xff]].concat();
    let length = u8::try_from(port.len() & 0x7f).unwrap() | 0x80;
    let head = [0x12, length, u8::try_from(port.len() >> 7).unwrap()];
    assert!(port.len() < 1 << 14, "two bytes say its length");
    for size in [1, usize::MAX] {
        let read = first(framed(&[&head[..], &port].concat()), size, OK);
        let Ok(Some(Response::Port(read))) = read else { panic!() };
        assert_eq!((read.port(), read.revision()), (8080, update.revision.as_ref()));
        match PortState::new().apply_read(*read).unwrap_err() {
            ApplyError::Decode(error) => assert_eq!(error.path, "routes[0]"),
            ApplyError::Base { .. } => panic!("there is no base"),
        }
    }
}

fn any_effect() -> impl Strategy<Value = Filter> {
    let name = || select(vec!["x-a", "x-b"]).prop_map(http::HeaderName::from_static);
    let pair = move || {
        let value = select(vec![&b"1"[..], b"\xff", b""]);
        (name(), value.prop_map(|v| http::HeaderValue::from_bytes(v).unwrap()))
    };
    let change = move || {
        (vec(pair(), 0..3), vec(pair(), 0..3), vec(name(), 0..3))
            .prop_map(|(add, set, remove)| HeaderChange { add, set, remove })
    };
    let text = || option::of("[a-z]{0,4}".prop_map(Arc::<str>::from));
    let path = option::of(prop_oneof![
        "/[a-z]{0,3}".prop_map(|p| RedirectPath::Full(p.into())),
        "/[a-z]{0,3}".prop_map(|p| RedirectPath::Prefix(p.into())),
    ]);
    let redirect = (text(), text(), option::of(any::<u16>()), path, 300_u16..400).prop_map(
        |(scheme, host, port, path, status)| Redirect { scheme, host, port, path, status },
    );
    let share = (any::<u32>(), 1_u32.., any::<bool>());
    let failure = (100_u16..600, 0_u16..17, "[ -~]{0,5}", share).prop_map(
        |(status, grpc_status, message, (numerator, denominator, required))| Failure {
            status,
            grpc_status,
            message: message.into(),
            numerator,
            denominator,
            required,
        },
    );
    let bound = (0_u64..u64::from(u32::MAX), 0_u32..1_000_000_000)
        .prop_map(|(seconds, nanos)| Duration::new(seconds, nanos));
    let kind = prop_oneof![
        change().prop_map(FilterKind::RequestHeaders),
        change().prop_map(FilterKind::ResponseHeaders),
        redirect.prop_map(FilterKind::Redirect),
        failure.prop_map(FilterKind::Failure),
        bound.prop_map(FilterKind::Timeout),
        any_timeouts().prop_map(FilterKind::Timeouts),
        any_rewrite().prop_map(FilterKind::Rewrite),
    ];
    let source = prop_oneof![
        Just(Source::Default("audit".into())),
        Just(Source::Object(testing::object("HTTPRoute", "r"))),
    ];
    (source, kind).prop_map(|(source, kind)| Filter { source, kind })
}

fn any_limit() -> impl Strategy<Value = RateLimit> {
    let rate = || (1_u32..).prop_map(|rate| NonZeroU32::new(rate).unwrap());
    let one = (rate(), vec("[a-z]{0,4}".prop_map(Arc::<str>::from), 0..3))
        .prop_map(|(requests_per_second, clients)| LimitOverride { requests_per_second, clients });
    (option::of(rate()), option::of(rate()), vec(one, 0..3), any::<bool>()).prop_map(
        |(total, identity, overrides, refuses)| RateLimit {
            source: Source::Object(testing::object("HTTPLocalRateLimitPolicy", "l")),
            total,
            identity,
            overrides,
            refuses,
        },
    )
}

/// Policies of `any_policy` with its constant fields varied.
fn varied_policy() -> impl Strategy<Value = ServerPolicy> {
    let owner = prop_oneof![
        Just(Owner::Server(ObjectRef::new("g", "Server", "ns", "web"))),
        select(DefaultPolicy::ALL.to_vec()).prop_map(Owner::Default),
    ];
    let told = vec![InformationalHeaders::Enabled, InformationalHeaders::Disabled];
    let paths = (select(vec![PathHandling::Canonical, PathHandling::Raw]), select(told));
    let withheld = Just(UnresolvedGrant {
        source: testing::object("AuthorizationPolicy", "gone"),
        reason: "no MeshTLSAuthentication `x`".into(),
    });
    let timeout = (0_u64..100, 0_u32..1_000_000_000)
        .prop_map(|(seconds, nanos)| Duration::new(seconds, nanos));
    let origin = select(vec![Origin::Default, Origin::Probe, Origin::Guard]);
    let label = option::of(select(vec!["/books/:id", "/", ""]));
    (
        any_policy(),
        owner,
        paths,
        option::of(any_limit()),
        vec(any_effect(), 0..3),
        vec(withheld, 0..2),
        timeout,
        (origin, option::of(any::<i64>()), label, any::<bool>()),
    )
        .prop_map(
            |(
                mut policy,
                owner,
                (paths, told),
                rate_limit,
                effects,
                withheld,
                timeout,
                of_route,
            )| {
                if let Protocol::Detect { .. } = policy.protocol {
                    policy.protocol = Protocol::Detect { timeout };
                }
                if let Some(first) = policy.routes.routes.first_mut() {
                    let first = Arc::make_mut(first);
                    let (origin, created, label, grpc) = of_route;
                    first.origin = origin;
                    first.created = created;
                    first.label = label.map(RouteLabel::new);
                    first.withheld = withheld.clone().into();
                    first.kind = if grpc { RouteKind::Grpc } else { RouteKind::Http };
                    if let Some(rule) = first.rules.first_mut() {
                        rule.effects = effects.clone().into();
                    }
                }
                policy.informational_headers = told;
                ServerPolicy { owner, paths, rate_limit, effects, withheld, ..policy }
            },
        )
}

fn permits(decision: Decision) -> bool {
    matches!(decision, Decision::Permit(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_sent_is_received(policy in varied_policy()) {
        let encoded = encode_port(&policy, &all());
        prop_assert!(encoded.unsupported().is_empty());
        let received = apply(&mut PortState::new(), &encoded.full(PORT, &Revision::default()));
        prop_assert_eq!(&*received, &policy);
    }

    #[test]
    fn a_change_leads_where_the_full_state_would(a in varied_policy(), b in varied_policy()) {
        let (old, new) = (encode_port(&a, &all()), encode_port(&b, &all()));
        let mut state = PortState::new();
        apply(&mut state, &old.full(PORT, &Revision::default()));
        let received = apply(&mut state, &diff(&old, &new, PORT, &Revision::default()));
        prop_assert_eq!(&*received, &b);
        prop_assert_eq!(state.revision().unwrap().content, new.content());
    }

    #[test]
    fn small_changes_lead_there_too(
        a in varied_policy(),
        other in varied_policy(),
        at in any::<prop::sample::Index>(),
        how in 0..5,
    ) {
        let mut b = a.clone();
        let length = b.routes.routes.len();
        let donated = other.routes.routes.first().cloned();
        match (how, donated) {
            (0, Some(route)) => b.routes.routes.insert(at.index(length + 1), route),
            (1, _) if length > 0 => { b.routes.routes.remove(at.index(length)); }
            (2, _) => b.routes.routes.reverse(),
            (3, _) => b.authorizations = other.authorizations.clone(),
            (_, _) if length > 0 => {
                let route = Arc::make_mut(&mut b.routes.routes[at.index(length)]);
                route.authorizations = other.authorizations.clone();
            }
            (_, _) => b.rate_limit = other.rate_limit.clone(),
        }
        let (old, new) = (encode_port(&a, &all()), encode_port(&b, &all()));
        let mut state = PortState::new();
        apply(&mut state, &old.full(PORT, &Revision::default()));
        let received = apply(&mut state, &diff(&old, &new, PORT, &Revision::default()));
        prop_assert_eq!(&*received, &b);
    }

    #[test]
    fn a_client_without_features_gets_nothing_wider(
        policy in any_policy(),
        features in btree_set(select(Feature::ALL.to_vec()), 0..=Feature::ALL.len()),
        client in any_client(),
        request in any_request(),
    ) {
        let encoded = encode_port(&policy, &features);
        let update = sent(&encoded.full(PORT, &Revision::default()));
        for name in &update.required_features {
            prop_assert!(features.contains(&Feature::parse(name).unwrap()), "{}", name);
        }
        let received = PortState::new().apply(&update).unwrap();
        let view = client.view();
        if permits(naive::decide_connection(&received, &view)) {
            prop_assert!(permits(naive::decide_connection(&policy, &view)));
        }
        // What a matcher looks at decides which headers are refused for their bytes.
        let plain = request.headers.iter().all(|(_, value)| value.to_str().is_ok());
        if plain && permits(naive::decide_request(&received, &view, &request.view())) {
            prop_assert!(permits(naive::decide_request(&policy, &view, &request.view())));
        }
        // Of a port that is denied nothing else counts.
        let same = *received == policy || (policy.deny.is_some() && received.deny == policy.deny);
        prop_assert!(same || !encoded.unsupported().is_empty(), "a change that is not reported");
    }

    #[test]
    fn a_required_rewrite_applies_or_the_request_is_denied(
        policy in any_policy_with_effects(),
        features in btree_set(select(Feature::ALL.to_vec()), 0..=Feature::ALL.len()),
        client in any_client(),
        request in any_request(),
    ) {
        let encoded = encode_port(&policy, &features);
        let update = sent(&encoded.full(PORT, &Revision::default()));
        let received = PortState::new().apply(&update).unwrap();
        let (client, request) = (client.view(), request.view());
        let here = naive::decide_request(&policy, &client, &request);
        let there = naive::decide_request(&received, &client, &request);
        if let (Decision::Permit(here), Decision::Permit(there)) = (here, there) {
            let applied = naive::effects(&received, &there, &request);
            for effect in naive::effects(&policy, &here, &request) {
                let required = matches!(&effect.kind, FilterKind::Rewrite(one) if one.required);
                prop_assert!(!required || applied.contains(&effect), "{:?} is left out", effect);
            }
        }
    }

    #[test]
    fn fields_in_any_order_and_several_times_mean_what_they_mean_to_the_library(
        a in varied_policy(),
        b in varied_policy(),
        order in vec(any::<prop::sample::Index>(), 0..40),
        cut in any::<prop::sample::Index>(),
        damage in option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>())),
        size in select(vec![1, 3, 50, usize::MAX]),
    ) {
        let full = |policy| encode_port(policy, &all()).full(PORT, &Revision::default());
        let mut fields = fields(&full(&a).encode_to_vec());
        fields.extend(fields_but_lists(&full(&b)));
        // Nobody knows these.
        let unknown = [&[0x98, 0x06, 1][..], &[0x9a, 0x06, 1, 7], &[0x9d, 0x06, 1, 2, 3, 4]];
        fields.extend(unknown.map(<[u8]>::to_vec));
        for (at, with) in order.iter().enumerate() {
            let at = at % fields.len();
            let with = with.index(fields.len());
            fields.swap(at, with);
        }
        let (one, other) = fields.split_at(cut.index(fields.len()));
        let mut bytes = Vec::new();
        for part in [one.concat(), other.concat()] {
            prost::encoding::encode_key(2, prost::encoding::WireType::LengthDelimited, &mut bytes);
            prost::encoding::encode_varint(part.len() as u64, &mut bytes);
            bytes.extend(part);
            bytes.extend([0x98, 0x06, 1]);
        }
        if let Some((at, byte)) = damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let whole = WatchResponse::decode(bytes.as_slice()).ok().and_then(|said| said.kind);
        let whole = match whole {
            Some(Said::Port(update)) => PortState::new().apply(&update).ok(),
            Some(Said::Workload(_)) | None => None,
        };
        let read = first(framed(&bytes), size, OK);
        let read = match read {
            Ok(Some(Response::Port(update))) => {
                PortState::new().apply_read(*update).ok().map(|applied| applied.policy)
            }
            Ok(_) | Err(_) => None,
        };
        // Groups, which damage may make, are refused.
        let refused = damage.is_some() && read.is_none();
        prop_assert!(read == whole || refused, "{:?}", (read, whole));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(update) = PortUpdate::decode(bytes.as_slice()) {
            _ = PortState::new().apply(&update);
        }
    }

    #[test]
    fn damaged_messages_change_nothing_or_are_read(
        policy in varied_policy(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let encoded = encode_port(&policy, &all());
        let full = encoded.full(PORT, &Revision::default());
        let mut bytes = full.encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut state = PortState::new();
        let before = apply(&mut state, &full);
        if let Ok(update) = PortUpdate::decode(bytes.as_slice())
            && state.apply(&update).is_err()
        {
            prop_assert!(Arc::ptr_eq(state.policy().unwrap(), &before));
        }
    }

    #[test]
    fn revisions_and_facts_read_back(
        epoch in "[a-z]{0,5}",
        content in any::<u64>(),
        versions in btree_map("[a-z/]{1,5}".prop_map(Arc::<str>::from), any::<u64>(), 0..4),
        client in any_client(),
        address in any::<std::net::IpAddr>(),
        filter in option::of("[a-z=,]{1,20}"),
        access_log in option::of(select(&AccessLogs::ALL[..])),
    ) {
        let logs = Logs { filter: filter.map(Into::into), access_log };
        let revision = Revision { epoch: epoch.into(), content, versions };
        prop_assert_eq!(decode_revision(&encode_revision(&revision)).unwrap(), revision);
        let pod_addresses = vec![client.client, address];
        let facts = Facts { pod_addresses, pod_gateways: vec![address], logs, ..client.facts };
        prop_assert_eq!(decode_facts(&encode_facts(&facts)).unwrap(), facts);
    }
}

/// An access log of a later version must not keep facts from being put in force.
#[test]
fn logs_that_cannot_be_read_are_not_set() {
    let logs = messages::Logs { filter: String::new(), access_log: 99 };
    let facts = messages::Facts { logs: Some(logs), ..Default::default() };
    assert_eq!(decode_facts(&facts).unwrap(), Facts::default());
}

/// The fields of a message, each with its head.
fn fields(mut message: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let before = message;
        let (number, wire) = prost::encoding::decode_key(&mut message).unwrap();
        let context = prost::encoding::DecodeContext::default();
        prost::encoding::skip_field(wire, number, &mut message, context).unwrap();
        fields.push(before[..before.len() - message.len()].to_vec());
    }
    fields
}

/// Those of an update that may come twice.
fn fields_but_lists(update: &PortUpdate) -> Vec<Vec<u8>> {
    let header = update.header.clone().map(|header| messages::PortHeader {
        exemptions: Vec::new(),
        hosts: Vec::new(),
        ..header
    });
    let update = PortUpdate { header, port: 9090, ..PortUpdate::default() };
    fields(&update.encode_to_vec())
}

/// A policy of one route with one match, and its message.
fn example() -> (ServerPolicy, PortUpdate) {
    let mut policy = testing::policy();
    policy.authorizations = testing::set(vec![testing::grant("g", vec![testing::identity("a")])]);
    let wanted = vec![
        policy_core::RequestMatch::everything(),
        policy_core::RequestMatch::path(policy_core::PathPattern::Regex(
            policy_core::Pattern::parse("/a").unwrap(),
        )),
    ];
    policy.routes.routes = vec![Arc::new(testing::route("r", wanted))];
    let update = encode_port(&policy, &all()).full(PORT, &Revision::default());
    (policy, update)
}

fn handed_down(chain: Vec<messages::ObjectRef>, prefix: &str) -> Option<messages::Origin> {
    use messages::origin::{DelegatedPath, Kind};
    let path = DelegatedPath { chain, prefix: prefix.to_owned() };
    Some(messages::Origin { kind: Some(Kind::Delegated(path)) })
}

fn refused(change: impl FnOnce(&mut PortUpdate)) -> String {
    let (_, mut update) = example();
    change(&mut update);
    match PortState::new().apply(&sent(&update)) {
        Err(error) => error.to_string(),
        Ok(policy) => panic!("read as {policy:?}"),
    }
}

#[test]
fn a_label_alone_is_a_change_of_its_route_for_every_client() {
    let (mut policy, _) = example();
    let chain = [testing::object("InboundRoute", "root")].into();
    let path = Arc::new(DelegatedPath { chain, prefix: "/a".into() });
    let delegated = Route { origin: Origin::Delegated(path), ..testing::route("r", Vec::new()) };
    policy.routes.routes.push(Arc::new(delegated));
    let mut labelled = policy.clone();
    for route in &mut labelled.routes.routes {
        Arc::make_mut(route).label = Some(RouteLabel::new("/books/:id"));
    }
    let mut older = all();
    older.remove(&Feature::Delegation);
    for features in [all(), older] {
        let old = encode_port(&policy, &features);
        let new = encode_port(&labelled, &features);
        let mut state = PortState::new();
        let before = apply(&mut state, &old.full(PORT, &Revision::default()));
        let received = apply(&mut state, &diff(&old, &new, PORT, &Revision::default()));
        // An older client gets other origins, with the labels all the same.
        let mut expected = ServerPolicy::clone(&before);
        for route in &mut expected.routes.routes {
            Arc::make_mut(route).label = Some(RouteLabel::new("/books/:id"));
        }
        assert_eq!(expected.routes.routes.len(), 2);
        assert_eq!(*received, expected);
    }
}

#[test]
fn a_client_without_delegation_gets_the_objects_and_no_unknown_reason() {
    let chain = ["root", "child"].map(|name| testing::object("InboundRoute", name));
    let path = Arc::new(DelegatedPath { chain: chain.clone().into(), prefix: "/a".into() });
    let (mut policy, _) = example();
    policy.routes.hosts =
        [(HostPattern::parse("a.example"), Unmatched::Deny(Denied::NotDelegated))].into();
    let granted = testing::set(vec![testing::grant("g", Vec::new())]);
    let base = Route {
        authorizations: granted,
        inherits_server: true,
        ..(*policy.routes.routes[0]).clone()
    };
    policy.routes.routes = [Origin::Delegated(path.clone()), Origin::Undelegated(path)]
        .map(|origin| Arc::new(Route { origin, ..base.clone() }))
        .into();
    let mut features = all();
    features.remove(&Feature::Delegation);
    let encoded = encode_port(&policy, &features);
    let update = encoded.full(PORT, &Revision::default());
    let received = PortState::new().apply(&sent(&update)).unwrap();
    assert_eq!(
        received.routes.hosts.values().collect::<Vec<_>>(),
        [&Unmatched::Deny(Denied::Unauthorized)]
    );
    let [arrived, lost] = &received.routes.routes[..] else { panic!("{received:?}") };
    for route in [arrived, lost] {
        assert_eq!(route.origin, Origin::Objects(chain.clone().into()));
    }
    assert_eq!((arrived.authorizations.len(), arrived.inherits_server), (1, true));
    assert_eq!((lost.authorizations.len(), lost.inherits_server), (0, false));
    assert_eq!(encoded.unsupported().len(), 3, "{:?}", encoded.unsupported());
}

/// A policy whose one route has this effect.
fn with_effect(kind: FilterKind) -> ServerPolicy {
    let (mut policy, _) = example();
    let route = Arc::make_mut(&mut policy.routes.routes[0]);
    route.inherits_server = true;
    let source = Source::Object(testing::object("HeaderRewritePolicy", "p"));
    route.rules[0].effects = vec![Filter { source, kind }].into();
    policy
}

fn required(required: bool) -> FilterKind {
    let clear = vec![http::HeaderName::from_static("x-admin")];
    FilterKind::Rewrite(HeaderRewrite { clear, required, ..HeaderRewrite::default() })
}

#[test]
fn an_older_client_gets_routes_without_bounds_and_none_that_must_be_rewritten() {
    let second = Some(Duration::from_secs(1));
    let timeouts = FilterKind::Timeouts(Timeouts { idle: second, ..Timeouts::default() });
    for (kind, feature, denied) in [
        (timeouts, Feature::TimeoutPolicies, false),
        (required(false), Feature::HeaderRewrites, false),
        (required(true), Feature::RequiredRewrites, true),
        (testing::refusal(), Feature::RequiredRewrites, true),
    ] {
        let policy = with_effect(kind.clone());
        let mut features = all();
        features.remove(&feature);
        let encoded = encode_port(&policy, &features);
        let update = sent(&encoded.full(PORT, &Revision::default()));
        let received = PortState::new().apply(&update).unwrap();
        let [route] = &received.routes.routes[..] else { panic!("{received:?}") };
        assert!(route.rules[0].effects.is_empty(), "{feature:?}");
        assert_eq!(route.inherits_server, !denied, "{feature:?}");
        assert_eq!(route.origin, policy.routes.routes[0].origin);
        assert_eq!(encoded.unsupported().len(), if denied { 2 } else { 1 });
        // On the Server it concerns every request.
        let (mut policy, _) = example();
        let effect = Filter { source: Source::Default("test".into()), kind };
        policy.effects = vec![effect];
        let update = encode_port(&policy, &features).full(PORT, &Revision::default());
        let received = PortState::new().apply(&sent(&update)).unwrap();
        assert_eq!(received.deny, denied.then_some(Denied::ProxyUnsupported), "{feature:?}");
    }
}

#[test]
fn an_older_client_gets_a_port_denied_whose_limit_refuses_every_request() {
    let (mut policy, _) = example();
    let source = Source::Object(testing::object("HTTPLocalRateLimitPolicy", "l"));
    let (total, identity, overrides) = (None, None, Vec::new());
    policy.rate_limit = Some(RateLimit { source, total, identity, overrides, refuses: true });
    let received = |features: &BTreeSet<Feature>| {
        let update = encode_port(&policy, features).full(PORT, &Revision::default());
        PortState::new().apply(&sent(&update)).unwrap()
    };
    assert_eq!(received(&all()).rate_limit, policy.rate_limit);
    let mut features = all();
    features.remove(&Feature::RefusingLimits);
    assert_eq!(received(&features).deny, Some(Denied::ProxyUnsupported));
}

#[test]
fn an_older_client_gets_a_port_denied_whose_connections_are_not_used_again_after_bodies() {
    let (mut policy, _) = example();
    policy.upstream_reuse = policy_core::UpstreamReuse::WithoutBody;
    let received = |features: &BTreeSet<Feature>| {
        let update = encode_port(&policy, features).full(PORT, &Revision::default());
        PortState::new().apply(&sent(&update)).unwrap()
    };
    assert_eq!(received(&all()).upstream_reuse, policy.upstream_reuse);
    let mut features = all();
    features.remove(&Feature::ReuseWithoutBody);
    assert_eq!(received(&features).deny, Some(Denied::ProxyUnsupported));
}

#[test]
fn an_older_client_gets_no_grant_with_a_condition_on_a_path() {
    let (mut policy, _) = example();
    let condition = SegmentCondition::new("p", 0, SegmentOperator::NotIn, ["a"]);
    let conditional = testing::grant("c", vec![Predicate::Segment(condition)]);
    policy.authorizations =
        [conditional].into_iter().chain(policy.authorizations.to_vec()).collect();
    let mut features = all();
    features.remove(&Feature::Captures);
    let encoded = encode_port(&policy, &features);
    let update = sent(&encoded.full(PORT, &Revision::default()));
    let received = PortState::new().apply(&update).unwrap();
    assert_eq!(received.authorizations, example().0.authorizations);
    let [omitted] = encoded.unsupported() else { panic!("{:?}", encoded.unsupported()) };
    assert!(omitted.to_string().contains("needs `captures`"), "{omitted}");
}

#[test]
fn what_a_server_does_to_all_requests_is_not_left_out() {
    let (mut policy, _) = example();
    let name = http::HeaderName::from_static("x-admin");
    let change = policy_core::filter::HeaderChange { remove: vec![name], ..Default::default() };
    policy.effects = vec![Filter {
        source: policy_core::Source::Default("test".into()),
        kind: FilterKind::RequestHeaders(change),
    }];
    for feature in Feature::ALL {
        let mut features = all();
        features.remove(&feature);
        let update = encode_port(&policy, &features).full(PORT, &Revision::default());
        let received = PortState::new().apply(&sent(&update)).unwrap();
        let denied = (feature == Feature::ServerEffects)
            .then_some(policy_core::decision::Denied::ProxyUnsupported);
        assert_eq!(received.deny, denied, "{feature:?}");
    }
}

fn effect(kind: messages::effect::Kind) -> messages::Effect {
    let source = messages::source::Kind::Default("test".into());
    messages::Effect { source: Some(messages::Source { kind: Some(source) }), kind: Some(kind) }
}

fn timeouts(idle: Option<prost_types::Duration>, streams: i32) -> messages::effect::Kind {
    let timeouts = messages::Timeouts { idle, streams, ..Default::default() };
    messages::effect::Kind::Timeouts(timeouts)
}

#[test]
fn what_cannot_be_read_is_named() {
    let header = |update: &mut PortUpdate| update.header.clone().unwrap();
    let cases = [
        (
            refused(|u| {
                let path = u.routes[0].rules[0].matches[1].path.as_mut().unwrap();
                path.kind = Some(messages::path_pattern::Kind::Regex("(".into()));
            }),
            "routes[0].rules[0].matches[1].path.regex: invalid regular expression: unclosed group",
        ),
        (refused(|u| u.routes[0].kind = 0), "routes[0].kind: value 0 is not known here"),
        (refused(|u| u.routes[0].kind = 7), "routes[0].kind: value 7 is not known here"),
        (refused(|u| u.routes[0].key = 0), "routes[0].key: must not be 0"),
        (
            refused(|u| u.routes[0].origin = handed_down(Vec::new(), "/a")),
            "routes[0].origin.delegated.chain: must not be empty",
        ),
        (
            refused(|u| {
                let chain = vec![messages::ObjectRef::default()];
                u.routes[0].origin = handed_down(chain, "");
            }),
            "routes[0].origin.delegated.prefix: must begin with `/`",
        ),
        (
            refused(|u| u.routes[0].rules[0].effects = vec![effect(timeouts(None, 0))]),
            "routes[0].rules[0].effects[0].timeouts.streams: value 0 is not known here",
        ),
        (
            refused(|u| {
                let zero = prost_types::Duration::default();
                u.routes[0].rules[0].effects = vec![effect(timeouts(Some(zero), 1))];
            }),
            "routes[0].rules[0].effects[0].timeouts.idle: must not be zero",
        ),
        (
            refused(|u| {
                let name = "x y".into();
                let header = messages::HeaderCondition { name, operator: None };
                let kind = Some(messages::effect_condition::Kind::Header(header));
                let when = vec![messages::EffectCondition { kind }];
                let rewrite = messages::HeaderRewrite { when, ..Default::default() };
                let rewrite = messages::effect::Kind::Rewrite(rewrite);
                u.routes[0].rules[0].effects = vec![effect(rewrite)];
            }),
            "routes[0].rules[0].effects[0].rewrite.when[0].header.name: `x y` is not a header name",
        ),
        (refused(|u| u.header = None), "header: must be set"),
        (refused(|u| u.revision = None), "revision: must be set"),
        (
            refused(|u| u.header = Some(messages::PortHeader { paths: 0, ..header(u) })),
            "header.paths: value 0 is not known here",
        ),
        (
            refused(|u| {
                u.header = Some(messages::PortHeader { deny: Some("x".into()), ..header(u) });
            }),
            "header.deny: reason `x` is not known here",
        ),
        (
            refused(|u| {
                use messages::{host_pattern, unmatched};
                let rule = |then| messages::HostRule {
                    host: Some(messages::HostPattern {
                        kind: Some(host_pattern::Kind::Exact("a".into())),
                    }),
                    unmatched: Some(messages::Unmatched { kind: Some(then) }),
                };
                let not_found = rule(unmatched::Kind::NotFound(messages::Unit {}));
                let default = rule(unmatched::Kind::DefaultRoute(messages::Unit {}));
                let hosts = vec![not_found, default];
                u.header = Some(messages::PortHeader { hosts, ..header(u) });
            }),
            "header.hosts[1]: names a host twice",
        ),
        (
            refused(|u| u.required_features.push("telepathy".into())),
            "required_features[0]: feature `telepathy` is not known here",
        ),
        (
            refused(|u| u.authorizations[0].requirement = None),
            "authorizations[0]: none of its alternatives is set, or one not known here",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, expected);
    }
    let dangling = refused(|u| u.authorizations.clear());
    assert!(
        dangling.starts_with("server_authorizations: there is no authorization "),
        "{dangling}"
    );
    let unplaced = refused(|u| u.route_order = None);
    assert!(unplaced.contains("has no place in it"), "{unplaced}");
}

#[test]
fn an_unknown_alternative_is_refused() {
    // Field 99 of the protocol: an alternative of a later version.
    let (_, mut update) = example();
    let mut header = update.header.take().unwrap();
    header.protocol = None;
    update.header = Some(header);
    let mut bytes = update.encode_to_vec();
    // header = field 5, protocol = field 2, unknown = field 99 with an empty message.
    bytes.extend([0x2a, 5, 0x12, 3, 0x9a, 0x06, 0]);
    let update = PortUpdate::decode(bytes.as_slice()).unwrap();
    let error = PortState::new().apply(&update).unwrap_err().to_string();
    assert!(error.starts_with("header.protocol: none of its alternatives is set"), "{error}");
}

#[test]
fn a_change_of_something_else_asks_for_the_full_state() {
    let (policy, full) = example();
    let encoded = encode_port(&policy, &all());
    let change = diff(&encoded, &encoded, PORT, &Revision::default());
    let mut empty = PortState::new();
    let base = encoded.content();
    assert_eq!(empty.apply(&change), Err(ApplyError::Base { base, have: None }));
    let mut state = PortState::new();
    state.apply(&full).unwrap();
    let wrong = PortUpdate { base: Some(1), ..change };
    assert_eq!(state.apply(&wrong), Err(ApplyError::Base { base: 1, have: Some(base) }));
    assert_eq!(**state.policy().unwrap(), policy);
}

#[test]
fn a_change_is_as_large_as_what_changed() {
    let case = testing::benchmark::mixed(2000);
    let old = encode_port(&case.policy, &all());
    let mut changed = case.policy.clone();
    let mut routes = changed.routes.routes.clone();
    let mut route = (*routes[1000]).clone();
    route.origin = Origin::Objects([testing::object("HTTPRoute", "new")].into());
    routes.insert(1000, Arc::new(route));
    changed.routes.routes = routes;
    let new = encode_port(&changed, &all());
    let update = diff(&old, &new, PORT, &Revision::default());
    assert_eq!(update.routes.len(), 1);
    assert!(update.encoded_len() < 1000, "{} bytes", update.encoded_len());
    let mut state = PortState::new();
    let before = apply(&mut state, &old.full(PORT, &Revision::default()));
    let after = apply(&mut state, &update);
    assert_eq!(*after, changed);
    let shared = after.routes.routes.iter().zip(&before.routes.routes).take(1000);
    assert!(shared.into_iter().all(|(a, b)| Arc::ptr_eq(a, b)), "routes are shared");
}

/// The difference that the evaluator takes, so that it need not compare routes again.
#[test]
fn an_update_says_which_routes_it_left_alone() {
    let mut policy = testing::benchmark::mixed(200).policy;
    policy.routes.routes.insert(7, for_client("one", "a"));
    let mut state = PortState::new();
    let mut encoded = encode_port(&policy, &all());
    assert!(applied(&mut state, &encoded.full(PORT, &Revision::default())).change.is_none());
    let mut expect = |change: &dyn Fn(&mut ServerPolicy), gone: &[usize], fresh: &[usize]| {
        change(&mut policy);
        let next = encode_port(&policy, &all());
        let before = state.policy().unwrap().clone();
        let result = applied(&mut state, &diff(&encoded, &next, PORT, &Revision::default()));
        encoded = next;
        assert_eq!(*result.policy, policy);
        let change = result.change.unwrap();
        assert!(change.leads_to(&result.policy));
        assert_eq!((change.diff().removed(), change.diff().inserted()), (gone, fresh));
        assert_eq!(change.is_empty(), gone.is_empty() && fresh.is_empty());
        (before, result.policy)
    };
    let (before, after) = expect(&|_| {}, &[], &[]);
    assert!(Arc::ptr_eq(&before, &after), "nothing changed, so the next change is from it too");
    expect(&|policy| _ = policy.routes.routes.remove(3), &[3], &[]);
    expect(&|policy| policy.routes.routes.insert(9, for_client("two", "b")), &[], &[9]);
    let regranted = |policy: &mut ServerPolicy| policy.routes.routes[6] = for_client("one", "c");
    expect(&regranted, &[6], &[6]);
    expect(&|policy| policy.authorizations = testing::set(Vec::new()), &[], &[]);
    let moved = |policy: &mut ServerPolicy| policy.routes.routes[20..25].rotate_left(1);
    expect(&moved, &[20], &[24]);
}

/// A route of this name, for everything and for one client.
fn for_client(name: &str, client: &str) -> Arc<policy_core::Route> {
    let mut route = testing::route(name, Vec::new());
    let grant = testing::grant(name, vec![testing::identity(client)]);
    route.authorizations = testing::set(vec![grant]);
    Arc::new(route)
}

fn applied(state: &mut PortState, update: &PortUpdate) -> Applied {
    let said = WatchResponse { kind: Some(Said::Port(update.clone())) };
    let Ok(Some(Response::Port(read))) = received(&said, usize::MAX) else { panic!() };
    state.apply_read(*read).unwrap()
}

#[test]
fn a_changed_grant_reaches_the_routes_that_have_it() {
    let grant = |name: &str| testing::grant("shared", vec![testing::identity(name)]);
    let policy = |name: &str| {
        let mut policy = testing::policy();
        let set = testing::set(vec![grant(name)]);
        policy.routes.routes = (0..100)
            .map(|number| {
                let mut route = testing::route(&number.to_string(), Vec::new());
                route.authorizations = set.clone();
                Arc::new(route)
            })
            .collect();
        policy
    };
    let (old, new) = (encode_port(&policy("a"), &all()), encode_port(&policy("b"), &all()));
    let update = diff(&old, &new, PORT, &Revision::default());
    assert_eq!((update.authorizations.len(), update.routes.len()), (1, 0));
    let mut state = PortState::new();
    apply(&mut state, &old.full(PORT, &Revision::default()));
    assert_eq!(*apply(&mut state, &update), policy("b"));
}

#[test]
fn a_grant_that_moved_to_another_key_is_revoked_with_that_key() {
    // Grants of one object have keys in the order in which they appear.
    let one = |name: &str| testing::grant("one", vec![testing::identity(name)]);
    let other = testing::grant("other", vec![testing::identity("x")]);
    let policy = |server: &str, route: &str| {
        let mut policy = testing::policy();
        policy.authorizations = testing::set(vec![one(server)]);
        let mut own = testing::route("r", Vec::new());
        own.authorizations = testing::set(vec![one(route), other.clone()]);
        policy.routes.routes = vec![Arc::new(own)];
        policy
    };
    let mut before = encode_port(&policy("a", "a"), &all());
    let mut state = PortState::new();
    apply(&mut state, &before.full(PORT, &Revision::default()));
    for policy in [policy("b", "a"), policy("b", "c"), policy("b", "b")] {
        let next = encode_port(&policy, &all());
        let received = apply(&mut state, &diff(&before, &next, PORT, &Revision::default()));
        assert_eq!(*received, policy);
        before = next;
    }
}

#[test]
fn the_content_hash_is_the_same_for_ever() {
    let (policy, _) = example();
    let content = encode_port(&policy, &all()).content();
    assert_eq!(content, 0x3a1e_ab18_e176_dbc6, "compared between versions: {content:#x}");
    let mut other = policy;
    other.authorizations = policy_core::AuthorizationSet::default();
    assert_ne!(content, encode_port(&other, &all()).content());
}
