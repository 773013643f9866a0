//! Destinations on the wire: what is sent is what is received, whole and in changes, and what cannot
//! be read changes nothing.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use policy_core::destination::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination,
    ServiceName,
};
use policy_proto::DecodeError;
use policy_proto::messages::{self as m, destination_response::Kind};
use policy_proto::native::destination::{
    DestinationState, MAX_ENDPOINTS, change_of_destination, decode_lookup, encode_destination,
    encode_lookup,
};
use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

type Applied = Result<Option<Arc<Destination>>, DecodeError>;

fn apply(state: &mut DestinationState, kind: &Kind) -> Applied {
    match kind {
        Kind::Found(found) => state.found(found),
        Kind::More(more) => state.more(more),
        Kind::Changed(changed) => state.changed(changed),
        Kind::Refused(_) | Kind::Released(_) => panic!("not an answer"),
    }
}

/// Applies the messages of one answer, which the last of them completes.
fn take(state: &mut DestinationState, messages: &[Kind]) -> Destination {
    let (last, before) = messages.split_last().unwrap();
    for message in before {
        assert_eq!(apply(state, message), Ok(None));
    }
    Destination::clone(&apply(state, last).unwrap().unwrap())
}

fn service_name() -> impl Strategy<Value = ServiceName> {
    ("[a-c]{1,2}", "[a-c]{1,2}").prop_map(|(namespace, name)| ServiceName {
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
    })
}

fn number() -> impl Strategy<Value = NonZeroU16> {
    any::<NonZeroU16>()
}

/// Few addresses, so that two destinations share some.
fn address() -> impl Strategy<Value = SocketAddr> {
    let addresses: Vec<IpAddr> =
        ["10.0.0.1", "10.0.0.2", "10.0.0.3", "0.0.0.0", "fd00::1", "fd00::2", "::"]
            .map(|text| text.parse().unwrap())
            .into();
    (select(addresses), select(vec![1_u16, 80, 65_535]))
        .prop_map(|(address, port)| SocketAddr::new(address, port))
}

fn mesh() -> impl Strategy<Value = EndpointMesh> {
    use PlaintextReason as Reason;
    let reasons = vec![Reason::Unmeshed, Reason::Skipped, Reason::ForeignMesh, Reason::ApiServer];
    let meshed = ("[a-c.]{1,3}", "[a-c.]{1,3}", option::of(number()), any::<bool>()).prop_map(
        |(identity, server_name, inbound_port, opaque)| {
            EndpointMesh::Meshed(MeshEndpoint {
                identity: identity.as_str().into(),
                server_name: server_name.as_str().into(),
                opaque: opaque && inbound_port.is_some(),
                inbound_port,
            })
        },
    );
    prop_oneof![meshed, select(reasons).prop_map(EndpointMesh::Plaintext)]
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    (address(), "[a-c/]{0,3}", "[a-c]{0,2}", mesh()).prop_map(
        |(address, owner, namespace, mesh)| Endpoint {
            address,
            owner: owner.as_str().into(),
            namespace: namespace.as_str().into(),
            mesh,
        },
    )
}

fn destination() -> impl Strategy<Value = Destination> {
    let rest = ("[a-c/]{0,3}", "[a-c]{0,2}", mesh());
    let endpoints = btree_map(address(), rest, 0..8).prop_map(|endpoints| {
        let endpoints = endpoints.into_iter().map(|(address, (owner, namespace, mesh))| Endpoint {
            address,
            owner: owner.as_str().into(),
            namespace: namespace.as_str().into(),
            mesh,
        });
        endpoints.collect::<Arc<[Endpoint]>>()
    });
    let affinity = option::of((0_u64..100_000, 0_u32..1_000_000_000))
        .prop_map(|time| time.map(|(seconds, nanos)| Duration::new(seconds, nanos)));
    let ports = select(vec![NonZeroU16::MIN, NonZeroU16::MAX]);
    let service = (service_name(), ports, affinity, endpoints).prop_map(
        |(service, port, affinity, endpoints)| {
            Destination::Service(ServiceDestination { service, port, affinity, endpoints })
        },
    );
    prop_oneof![
        1 => Just(Destination::Unknown),
        1 => Just(Destination::Node),
        1 => service_name().prop_map(Destination::UndeclaredPort),
        1 => endpoint().prop_map(Destination::Workload),
        4 => service,
    ]
}

/// The same Service with other endpoints, mostly the same ones.
fn changed(from: &Destination, mask: u8, new: Endpoint) -> Destination {
    let Destination::Service(service) = from else { return from.clone() };
    let kept = service.endpoints.iter().enumerate();
    let mut endpoints: Vec<_> = kept
        .filter(|(index, each)| (mask >> index) & 1 == 0 && each.address != new.address)
        .map(|(_, each)| each.clone())
        .collect();
    endpoints.push(new);
    endpoints.sort();
    Destination::Service(ServiceDestination { endpoints: endpoints.into(), ..service.clone() })
}

proptest! {
    #[test]
    fn a_destination_comes_back_as_it_was(first in destination(), second in destination()) {
        let mut state = DestinationState::new();
        prop_assert_eq!(take(&mut state, &encode_destination(&first)), first.clone());
        prop_assert_eq!(take(&mut state, &encode_destination(&second)), second.clone());
        prop_assert_eq!(state.complete().map(|known| Destination::clone(known)), Some(second));
    }

    #[test]
    fn a_change_leads_from_one_destination_to_the_other(
        first in destination(), mask in any::<u8>(), new in endpoint()
    ) {
        let second = changed(&first, mask, new);
        let mut state = DestinationState::new();
        take(&mut state, &encode_destination(&first));
        if let Some(change) = change_of_destination(&first, &second) {
            prop_assert_eq!(take(&mut state, &change), second);
        }
    }

    #[test]
    fn a_lookup_comes_back_as_it_was(id in 1_u32.., address in address()) {
        let lookup = encode_lookup(id, address);
        prop_assert_eq!((lookup.id, decode_lookup(&lookup)), (id, Ok(address)));
    }

    #[test]
    fn no_bytes_do_harm_and_what_is_refused_changes_nothing(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
        known in destination(),
    ) {
        let mut state = DestinationState::new();
        take(&mut state, &encode_destination(&known));
        for bytes in messages {
            let before = state.complete().cloned();
            let Ok(response) = m::DestinationResponse::decode(&*bytes) else { continue };
            let applied = match response.kind {
                Some(Kind::Refused(_) | Kind::Released(_)) | None => continue,
                Some(kind) => apply(&mut state, &kind),
            };
            if !matches!(applied, Ok(Some(_))) {
                prop_assert_eq!(state.complete(), before.as_ref());
            }
        }
    }
}

fn numbered(index: u32, owner: &str) -> Endpoint {
    let address = SocketAddr::new(IpAddr::from((0x0a00_0000 + index).to_be_bytes()), 80);
    let mesh = EndpointMesh::Plaintext(PlaintextReason::Unmeshed);
    Endpoint { address, owner: owner.into(), namespace: "shop".into(), mesh }
}

fn service(endpoints: impl Iterator<Item = Endpoint>) -> Destination {
    Destination::Service(ServiceDestination {
        service: ServiceName { namespace: "shop".into(), name: "web".into() },
        port: NonZeroU16::new(80).unwrap(),
        affinity: None,
        endpoints: endpoints.collect(),
    })
}

/// The number of endpoints of each message, and its flag for more.
fn sizes(messages: &[Kind]) -> Vec<(usize, bool)> {
    let of = |endpoints: &m::Endpoints| (endpoints.endpoints.len(), endpoints.more);
    let size = |message: &Kind| match message {
        Kind::Found(found) => of(found.endpoints.as_ref().unwrap()),
        Kind::More(more) => of(more),
        Kind::Changed(changed) => of(changed.endpoints.as_ref().unwrap()),
        Kind::Refused(_) | Kind::Released(_) => panic!("not an answer"),
    };
    messages.iter().map(size).collect()
}

#[test]
fn many_endpoints_come_in_portions_and_count_once_all_are_there() {
    assert_eq!(MAX_ENDPOINTS, 500);
    let (few, many) = (service((0..500).map(|n| numbered(n, ""))), 1_201);
    assert_eq!(sizes(&encode_destination(&few)), [(500, false)]);
    let many = service((0..many).map(|n| numbered(n, "")));
    let messages = encode_destination(&many);
    assert_eq!(sizes(&messages), [(500, true), (500, true), (201, false)]);
    let mut state = DestinationState::new();
    take(&mut state, &encode_destination(&few));
    for message in &messages[..2] {
        assert_eq!(apply(&mut state, message), Ok(None));
        assert_eq!(state.complete().map(|known| &**known), Some(&few));
    }
    assert_eq!(apply(&mut state, &messages[2]), Ok(Some(Arc::new(many.clone()))));
    // 600 of 1,201 differ.
    let renamed =
        service((0..1_201).map(|n| numbered(n, if n < 600 { "deployment/web" } else { "" })));
    let change = change_of_destination(&many, &renamed).unwrap();
    assert_eq!(sizes(&change), [(500, true), (100, false)]);
    assert_eq!(take(&mut state, &change), renamed);
}

#[test]
fn a_change_names_what_differs_alone() {
    let before = service((0..100).map(|n| numbered(n, "")));
    let after = service((1..100).map(|n| numbered(n, if n == 7 { "job/seven" } else { "" })));
    let change = change_of_destination(&before, &after).unwrap();
    let [Kind::Changed(changed)] = &*change else { panic!("{change:?}") };
    let address = |n: u8| m::EndpointAddress { address: vec![10, 0, 0, n], port: 80 };
    assert_eq!(changed.removed, [address(0)]);
    let listed = &changed.endpoints.as_ref().unwrap().endpoints;
    let listed: Vec<_> = listed.iter().map(|each| each.address.clone().unwrap()).collect();
    assert_eq!(listed, [address(7)]);
    assert_eq!(change_of_destination(&before, &Destination::Unknown), None);
    let none = service([].into_iter());
    assert_eq!(change_of_destination(&before, &none), None, "the whole is smaller");
}

/// A Service message, its fields to be spoilt.
fn whole() -> m::Found {
    let [Kind::Found(found)] = &*encode_destination(&service([numbered(1, "x")].into_iter()))
    else {
        panic!("one message")
    };
    found.clone()
}

/// The same with its one endpoint changed.
fn with_endpoint(change: impl FnOnce(&mut m::Endpoint)) -> m::Found {
    let mut found = whole();
    change(&mut found.endpoints.as_mut().unwrap().endpoints[0]);
    found
}

fn meshed(identity: &str, server_name: &str, inbound_port: u32, opaque: bool) -> m::Found {
    let (identity, server_name) = (identity.to_owned(), server_name.to_owned());
    let meshed = m::Meshed { identity, server_name, inbound_port, opaque };
    with_endpoint(|endpoint| endpoint.mesh = Some(m::endpoint::Mesh::Meshed(meshed)))
}

#[test]
fn what_cannot_be_read_is_refused_by_its_field() {
    use m::found::Kind as Of;
    let found =
        |kind: Of, endpoints: Option<m::Endpoints>| m::Found { kind: Some(kind), endpoints };
    let service = |port: u32, name: &str| m::Service {
        namespace: "shop".into(),
        name: name.into(),
        port,
        affinity: None,
    };
    let one = whole().endpoints;
    let refused = [
        (m::Found::default(), "found.kind"),
        (found(Of::Nobody(m::Nobody {}), one.clone()), "found.endpoints"),
        (found(Of::Node(m::NodeAddress {}), one.clone()), "found.endpoints"),
        (found(Of::UndeclaredPort(service(80, "web")), None), "found.undeclared_port.port"),
        (found(Of::UndeclaredPort(service(0, "")), None), "found.undeclared_port.name"),
        (found(Of::Service(service(0, "web")), one.clone()), "found.service.port"),
        (found(Of::Service(service(65_536, "web")), one), "found.service.port"),
        (found(Of::Workload(m::WorkloadAddress {}), None), "found.endpoints"),
        (with_endpoint(|each| each.address = None), "found.endpoints[0].address"),
        (
            with_endpoint(|each| each.address.as_mut().unwrap().address = vec![1; 5]),
            "found.endpoints[0].address.address",
        ),
        (
            with_endpoint(|each| each.address.as_mut().unwrap().port = 0),
            "found.endpoints[0].address.port",
        ),
        (with_endpoint(|each| each.mesh = None), "found.endpoints[0].mesh"),
        (
            with_endpoint(|each| each.mesh = Some(m::endpoint::Mesh::Plaintext(0))),
            "found.endpoints[0].plaintext",
        ),
        (
            with_endpoint(|each| each.mesh = Some(m::endpoint::Mesh::Plaintext(99))),
            "found.endpoints[0].plaintext",
        ),
        (meshed("", "b", 4143, false), "found.endpoints[0].meshed.identity"),
        (meshed("a", "", 4143, false), "found.endpoints[0].meshed.server_name"),
        (meshed("a", "b", 65_536, false), "found.endpoints[0].meshed.inbound_port"),
        (meshed("a", "b", 0, true), "found.endpoints[0].meshed.inbound_port"),
    ];
    for (message, path) in refused {
        let mut state = DestinationState::new();
        let error = state.found(&message).unwrap_err();
        assert_eq!((error.path.as_str(), state.complete()), (path, None), "{error}");
    }
    assert!(DestinationState::new().found(&meshed("a", "b", 0, false)).is_ok());
}

#[test]
fn messages_out_of_order_are_refused() {
    let before = service((0..1_001).map(|n| numbered(n, "")));
    let messages = encode_destination(&before);
    let (Kind::Found(found), Kind::More(more)) = (&messages[0], &messages[1]) else {
        panic!("{messages:?}")
    };
    let path = |applied: Applied| applied.unwrap_err().path;
    assert_eq!(path(DestinationState::new().more(more)), "more");
    let changed = m::Changed { endpoints: Some(m::Endpoints::default()), removed: Vec::new() };
    assert_eq!(path(DestinationState::new().changed(&changed)), "changed");
    let mut state = DestinationState::new();
    assert_eq!(state.found(found), Ok(None));
    assert_eq!(path(state.found(found)), "found");
    assert_eq!(path(state.changed(&changed)), "changed");
    let mut state = DestinationState::new();
    take(&mut state, &messages);
    let address = m::EndpointAddress { address: vec![192, 0, 2, 1], port: 80 };
    let stranger = m::Changed { removed: vec![address], ..changed.clone() };
    assert_eq!(path(state.changed(&stranger)), "changed.removed[0]");
    assert_eq!(
        path(state.changed(&m::Changed { endpoints: None, ..changed })),
        "changed.endpoints"
    );
    assert_eq!(state.complete().map(|known| &**known), Some(&before));
}

#[test]
fn reasons_that_no_controller_can_know_are_not_sent() {
    for reason in [PlaintextReason::NodePort, PlaintextReason::Unknown, PlaintextReason::External] {
        let mesh = EndpointMesh::Plaintext(reason);
        let destination = Destination::Workload(Endpoint { mesh, ..numbered(1, "") });
        let messages = encode_destination(&destination);
        let error = apply(&mut DestinationState::new(), &messages[0]).unwrap_err();
        assert_eq!(error.path, "found.endpoints[0].plaintext");
    }
}

#[test]
fn a_lookup_of_nothing_is_refused() {
    let good = encode_lookup(1, "10.0.0.1:80".parse().unwrap());
    let refused = [
        (m::Lookup { id: 0, ..good.clone() }, "id"),
        (m::Lookup { port: 0, ..good.clone() }, "port"),
        (m::Lookup { port: 65_536, ..good.clone() }, "port"),
        (m::Lookup { address: Vec::new(), ..good }, "address"),
    ];
    for (lookup, path) in refused {
        assert_eq!(decode_lookup(&lookup).unwrap_err().path, path);
    }
}
