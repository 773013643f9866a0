//! Key of a policy's counter, packed into 64 bits.

use policy_core::decision::AuthorizationId;
use policy_core::{Denied, Tls};

/// Kind of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum CounterKind {
    HttpAllow,
    HttpDeny,
    RouteNotFound,
    RateLimited,
    TcpAllow,
    TcpDeny,
    TcpTerminate,
    Detect,
    HttpError,
    /// A series of requests, not a counter.
    Exchange,
}

impl CounterKind {
    pub(super) const ALL: [CounterKind; 10] = [
        Self::HttpAllow,
        Self::HttpDeny,
        Self::RouteNotFound,
        Self::RateLimited,
        Self::TcpAllow,
        Self::TcpDeny,
        Self::TcpTerminate,
        Self::Detect,
        Self::HttpError,
        Self::Exchange,
    ];

    fn code(self) -> u64 {
        let position = Self::ALL.iter().position(|kind| *kind == self);
        position.and_then(|at| u64::try_from(at).ok()).unwrap_or(0).saturating_add(1)
    }

    fn from_code(code: u64) -> Option<Self> {
        usize::try_from(code.checked_sub(1)?).ok().and_then(|at| Self::ALL.get(at).copied())
    }
}

/// The client as counters distinguish it: the TLS state and, up to a maximum number, its identity.
/// Created once per connection by [`super::Telemetry::caller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    pub(super) tls: TlsClass,
    /// Index of the identity plus one; 0: none, or beyond the limit.
    pub(super) client: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TlsClass {
    Absent,
    Passthrough,
    Terminated,
}

impl TlsClass {
    pub(super) fn of(tls: &Tls<'_>) -> Self {
        match tls {
            Tls::Absent => Self::Absent,
            Tls::Passthrough => Self::Passthrough,
            Tls::Terminated(_) => Self::Terminated,
        }
    }

    fn code(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Passthrough => 1,
            Self::Terminated => 2,
        }
    }

    fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Absent),
            1 => Some(Self::Passthrough),
            2 => Some(Self::Terminated),
            3.. => None,
        }
    }
}

/// Key of a counter: four bits of kind, two of TLS, eight of client, two of the type of `detail`,
/// 24 of route, 24 of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CounterKey {
    pub(super) kind: CounterKind,
    pub(super) caller: Caller,
    pub(super) route: Option<u32>,
    pub(super) detail: Detail,
}

/// The part of a key beside kind, client and route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Detail {
    /// A small number whose meaning depends on the kind: a reason, a scope, a result, a status.
    Number(u32),
    /// Index into the Server's authorizations.
    Server(u32),
    /// Index into the route's own authorizations.
    Route(u32),
    /// Index into the Server's exemptions.
    Exemption(u32),
}

const BITS: u32 = 24;
const FIELD: u64 = 0xff_ffff;

impl Detail {
    /// Returns an authorization, with its route if it is a route's own.
    pub(super) fn of(authorization: AuthorizationId) -> (Option<u32>, Self) {
        match authorization {
            AuthorizationId::Server(index) => (None, Self::Server(index)),
            AuthorizationId::Route(route, index) => (Some(route), Self::Route(index)),
            AuthorizationId::Exemption(index) => (None, Self::Exemption(index)),
        }
    }

    fn code(self) -> (u64, u64) {
        let (kind, value) = match self {
            Self::Number(value) => (0, value),
            Self::Server(value) => (1, value),
            Self::Route(value) => (2, value),
            Self::Exemption(value) => (3, value),
        };
        (kind, u64::from(value))
    }
}

impl CounterKey {
    /// Packs the key, never to 0; `None` if an index does not fit, which no policy that fits a
    /// message has.
    pub(super) fn pack(self) -> Option<u64> {
        let route = self.route.map_or(0, |route| u64::from(route).saturating_add(1));
        let (variant, value) = self.detail.code();
        if route > FIELD || value > FIELD {
            return None;
        }
        let head = self.kind.code() << 4 | self.caller.tls.code() << 2 | variant;
        let head = head << 8 | u64::from(self.caller.client);
        Some((head << BITS | route) << BITS | value)
    }

    pub(super) fn unpack(packed: u64) -> Option<Self> {
        let value = u32::try_from(packed & FIELD).ok()?;
        let route = u32::try_from(packed >> BITS & FIELD).ok()?.checked_sub(1);
        let head = packed >> (BITS << 1);
        let client = u8::try_from(head & 0xff).ok()?;
        let detail = match head >> 8 & 0b11 {
            0 => Detail::Number(value),
            1 => Detail::Server(value),
            2 => Detail::Route(value),
            3.. => Detail::Exemption(value),
        };
        let caller = Caller { tls: TlsClass::from_code(head >> 10 & 0b11)?, client };
        Some(Self { kind: CounterKind::from_code(head >> 12)?, caller, route, detail })
    }
}

/// Returns the number of a reason: its index in [`Denied::all`].
pub(super) fn reason_number(reason: Denied) -> u32 {
    let position = Denied::all().position(|known| known == reason);
    position.and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_reason_has_its_own_number() {
        for (number, reason) in Denied::all().enumerate() {
            assert_eq!(
                reason_number(reason),
                u32::try_from(number).unwrap(),
                "{}",
                reason.as_str()
            );
        }
    }

    #[test]
    fn an_index_too_large_is_not_mistaken_for_another() {
        let caller = Caller { tls: TlsClass::Absent, client: 0 };
        let key =
            |route, detail| CounterKey { kind: CounterKind::HttpAllow, caller, route, detail };
        assert_eq!(key(Some(u32::MAX), Detail::Number(0)).pack(), None);
        assert_eq!(key(None, Detail::Server(1 << 24)).pack(), None);
    }

    proptest! {
        #[test]
        fn unpacking_is_the_inverse_of_packing(
            kind in 0usize..10, tls in 0u64..3, client: u8,
            route in proptest::option::of(0u32..(1 << 24) - 1), variant in 0u8..4, value in 0u32..1 << 24,
        ) {
            let detail = match variant {
                0 => Detail::Number(value),
                1 => Detail::Server(value),
                2 => Detail::Route(value),
                3.. => Detail::Exemption(value),
            };
            let caller = Caller { tls: TlsClass::from_code(tls).unwrap(), client };
            let key = CounterKey { kind: CounterKind::ALL[kind], caller, route, detail };
            let packed = key.pack().unwrap();
            prop_assert_ne!(packed, 0);
            prop_assert_eq!(CounterKey::unpack(packed), Some(key));
        }
    }
}
