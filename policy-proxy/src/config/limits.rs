//! The settings of limits of connections and requests.

use super::parse::{self, Expected};
use super::reader::Reader;
use crate::args::{LimitsArgs, RunArgs};
use crate::sidecar::{Limits, SidecarConfig, SocketOptions, Timeouts};
use policy_http::bounds::MAX_FIELDS;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) fn read(args: &RunArgs, reader: &mut Reader<'_>, config: &mut SidecarConfig) {
    let args = &args.limits;
    times(args, reader, &mut config.timeouts);
    sizes(args, reader, &mut config.limits);
    http2(args, reader, &mut config.limits);
    sockets(args, reader, &mut config.sockets);
}

fn times(args: &LimitsArgs, reader: &mut Reader<'_>, timeouts: &mut Timeouts) {
    let mut bound = |flag, typed, linkerd: &[&str], place: &mut Duration| {
        let given = reader.lookup(flag, typed, linkerd);
        *place = reader.read(given, *place, positive);
    };
    let head = &mut timeouts.request_head;
    bound("request-head-timeout", args.request_head_timeout.as_ref(), &[], head);
    bound("handshake-timeout", args.handshake_timeout.as_ref(), &[], &mut timeouts.handshake);
    bound("idle-timeout", args.idle_timeout.as_ref(), &[], &mut timeouts.idle);
    let linkerd = ["INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL"];
    bound("http2-ping", args.http2_ping.as_ref(), &linkerd, &mut timeouts.http2_ping);
    let (linkerd, ping) = (["INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT"], &args.http2_ping_timeout);
    bound("http2-ping-timeout", ping.as_ref(), &linkerd, &mut timeouts.http2_ping_answer);
    let given = reader.lookup("opaque-idle-timeout", args.opaque_idle_timeout.as_ref(), &[]);
    timeouts.opaque_idle = reader
        .read(given, None, |text| parse::duration(text).map(Some))
        .filter(|bound| !bound.is_zero());
    let given = reader.lookup("stall-timeout", args.stall_timeout.as_ref(), &[]);
    timeouts.stall = reader
        .read(given, timeouts.stall, |text| parse::duration(text).map(Some))
        .filter(|bound| !bound.is_zero());
}

fn sizes(args: &LimitsArgs, reader: &mut Reader<'_>, limits: &mut Limits) {
    let given = reader.lookup("max-connections", args.max_connections.as_ref(), &[]);
    limits.connections = reader.read(given, limits.connections, count);
    let given =
        reader.lookup("max-in-flight", args.max_in_flight.as_ref(), &["INBOUND_MAX_IN_FLIGHT"]);
    limits.in_flight = reader.read(given, limits.in_flight, count);
    let given = reader.lookup("max-headers", args.max_headers.as_ref(), &[]);
    limits.headers = reader.read(given, limits.headers, |text| {
        text.parse().ok().filter(|fields| (1..=MAX_FIELDS).contains(fields)).ok_or(FIELDS)
    });
    let linkerd = ["INBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE"];
    let given = reader.lookup("max-request-head", args.max_request_head.as_ref(), &linkerd);
    let expected = "expected 8192 to 16777216 bytes";
    limits.request_head =
        reader.read(given, limits.request_head, |text| between(text, 8192..=16_777_216, expected));
    let given = reader.lookup("max-response-head", args.max_response_head.as_ref(), &[]);
    limits.response_head =
        reader.read(given, limits.response_head, |text| between(text, 8192..=16_777_216, expected));
    let given = reader.lookup("max-open-heads", args.max_open_heads.as_ref(), &[]);
    limits.heads = reader.read(given, limits.heads, |text| {
        let bytes =
            between(text, 1_048_576..=1_073_741_824, "expected 1048576 to 1073741824 bytes");
        bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    });
}

fn http2(args: &LimitsArgs, reader: &mut Reader<'_>, limits: &mut Limits) {
    let mut number = |flag, typed, linkerd: &str, place: &mut u32, range, expected| {
        let given = reader.lookup(flag, typed, &[linkerd]);
        *place = reader.read(given, *place, |text| between(text, range, expected));
    };
    number(
        "http2-max-streams",
        args.http2_max_streams.as_ref(),
        "INBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS",
        &mut limits.http2_streams,
        1..=u32::MAX,
        "expected a whole number above 0",
    );
    let windows = [
        (
            "http2-stream-window",
            args.http2_stream_window.as_ref(),
            "INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE",
            &mut limits.http2_stream_window,
        ),
        (
            "http2-connection-window",
            args.http2_connection_window.as_ref(),
            "INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE",
            &mut limits.http2_connection_window,
        ),
        (
            "http2-upstream-stream-window",
            args.http2_upstream_stream_window.as_ref(),
            "HTTP2_INITIAL_STREAM_WINDOW_SIZE",
            &mut limits.http2_upstream_windows.0,
        ),
        (
            "http2-upstream-connection-window",
            args.http2_upstream_connection_window.as_ref(),
            "HTTP2_INITIAL_CONNECTION_WINDOW_SIZE",
            &mut limits.http2_upstream_windows.1,
        ),
    ];
    for (flag, typed, linkerd, place) in windows {
        // RFC 9113 section 6.9.1.
        number(flag, typed, linkerd, place, 1..=0x7fff_ffff, "expected 1 to 2147483647 bytes");
    }
    rest_of_http2(args, reader, limits);
}

fn rest_of_http2(args: &LimitsArgs, reader: &mut Reader<'_>, limits: &mut Limits) {
    let linkerd = ["INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL"];
    let given =
        reader.lookup("http2-adaptive-window", args.http2_adaptive_window.as_ref(), &linkerd);
    limits.http2_adaptive_window = reader.read(given, limits.http2_adaptive_window, parse::boolean);
    // RFC 9113 section 6.5.2.
    let linkerd = ["INBOUND_SERVER_HTTP2_MAX_FRAME_SIZE"];
    let given = reader.lookup("http2-max-frame", args.http2_max_frame.as_ref(), &linkerd);
    limits.http2_frame = reader.read(given, limits.http2_frame, |text| {
        between(text, 16_384..=16_777_215, "expected 16384 to 16777215 bytes").map(Some)
    });
    let linkerd = ["INBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS"];
    let given = reader.lookup("http2-pending-resets", args.http2_pending_resets.as_ref(), &linkerd);
    limits.http2_pending_resets = reader.read(given, limits.http2_pending_resets, count);
    let given = reader.lookup("http2-max-carried", args.http2_max_carried.as_ref(), &[]);
    limits.http2_carried = reader.read(given, None, |text| count(text).map(Some));
    let linkerd = ["INBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE"];
    let given = reader.lookup("http2-send-buffer", args.http2_send_buffer.as_ref(), &linkerd);
    limits.http2_send_buffer = reader.read(given, limits.http2_send_buffer, |text| {
        let bytes = between(text, 1..=u32::MAX, "expected a whole number of bytes above 0")?;
        Ok::<_, Expected>(usize::try_from(bytes).ok())
    });
}

fn sockets(args: &LimitsArgs, reader: &mut Reader<'_>, sockets: &mut SocketOptions) {
    let given = reader.lookup(
        "listen-backlog",
        args.listen_backlog.as_ref(),
        &["INBOUND_TCP_LISTEN_BACKLOG"],
    );
    sockets.backlog = reader.read(given, sockets.backlog, |text| {
        text.parse().ok().filter(|count| *count > 0).ok_or(COUNT)
    });
    let given = reader.lookup(
        "accept-keepalive",
        args.accept_keepalive.as_ref(),
        &["INBOUND_ACCEPT_KEEPALIVE"],
    );
    sockets.accept_keepalive = reader.read(given, sockets.accept_keepalive, positive);
    let bounds = [
        (
            "accept-user-timeout",
            args.accept_user_timeout.as_ref(),
            "INBOUND_ACCEPT_USER_TIMEOUT",
            &mut sockets.accept_user_timeout,
        ),
        (
            "connect-keepalive",
            args.connect_keepalive.as_ref(),
            "INBOUND_CONNECT_KEEPALIVE",
            &mut sockets.connect_keepalive,
        ),
        (
            "connect-user-timeout",
            args.connect_user_timeout.as_ref(),
            "INBOUND_CONNECT_USER_TIMEOUT",
            &mut sockets.connect_user_timeout,
        ),
    ];
    for (flag, typed, linkerd, place) in bounds {
        let given = reader.lookup(flag, typed, &[linkerd]);
        *place = reader.read(given, None, |text| positive(text).map(Some));
    }
}

pub(super) fn positive(text: &str) -> Result<Duration, Expected> {
    let bound = parse::duration(text)?;
    if bound.is_zero() { Err("expected more than 0") } else { Ok(bound) }
}

fn count(text: &str) -> Result<usize, Expected> {
    parse::count(text).map(std::num::NonZeroUsize::get)
}

fn between(text: &str, range: RangeInclusive<u32>, expected: Expected) -> Result<u32, Expected> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or(expected)
}

/// Up to [`MAX_FIELDS`].
const FIELDS: Expected = "expected 1 to 4096 header fields";
const COUNT: Expected = "expected a whole number above 0";

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn read_from(variables: &[(&str, &str)]) -> Result<SidecarConfig, Vec<String>> {
        let value = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let mut reader = Reader::new(&value);
        let mut config = SidecarConfig::new("web");
        read(&RunArgs::default(), &mut reader, &mut config);
        reader.finish(config).map_err(|errors| errors.0)
    }

    #[test]
    fn a_head_may_have_as_many_fields_as_are_ever_read() {
        let fields = |text| read_from(&[("PORTCULLIS_MAX_HEADERS", text)]);
        assert_eq!(fields("4096").unwrap().limits.headers, MAX_FIELDS);
        for refused in ["0", "4097", "many"] {
            let errors = fields(refused).unwrap_err();
            assert!(errors.iter().any(|error| error.contains(FIELDS)), "{refused}: {errors:?}");
        }
    }

    #[test]
    fn every_bound_of_linkerds_is_honoured() {
        let prefix = "LINKERD2_PROXY_INBOUND_";
        let variables = [
            ("MAX_IN_FLIGHT", "7"),
            ("TCP_LISTEN_BACKLOG", "8"),
            ("ACCEPT_KEEPALIVE", "9s"),
            ("ACCEPT_USER_TIMEOUT", "10s"),
            ("CONNECT_KEEPALIVE", "11s"),
            ("CONNECT_USER_TIMEOUT", "12s"),
            ("SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE", "13"),
            ("SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", "14"),
            ("SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL", "true"),
            ("SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "15s"),
            ("SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "16s"),
            ("SERVER_HTTP2_MAX_CONCURRENT_STREAMS", "17"),
            ("SERVER_HTTP2_MAX_FRAME_SIZE", "16385"),
            ("SERVER_HTTP2_MAX_HEADER_LIST_SIZE", "8193"),
            ("SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS", "18"),
            ("SERVER_HTTP2_MAX_SEND_BUF_SIZE", "19"),
        ];
        let names: Vec<_> = variables.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
        let mut all: Vec<_> =
            names.iter().zip(variables).map(|(name, (_, value))| (name.as_str(), value)).collect();
        all.push(("LINKERD2_PROXY_HTTP2_INITIAL_STREAM_WINDOW_SIZE", "20"));
        all.push(("LINKERD2_PROXY_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", "21"));
        let config = read_from(&all).unwrap();
        let seconds = Duration::from_secs;
        let defaults = SidecarConfig::new("web");
        assert_eq!(
            config.limits,
            Limits {
                in_flight: 7,
                request_head: 8193,
                http2_streams: 17,
                http2_pending_resets: 18,
                http2_stream_window: 13,
                http2_connection_window: 14,
                http2_adaptive_window: true,
                http2_frame: Some(16_385),
                http2_send_buffer: Some(19),
                http2_upstream_windows: (20, 21),
                ..defaults.limits
            }
        );
        let timeouts = Timeouts {
            http2_ping: seconds(15),
            http2_ping_answer: seconds(16),
            ..defaults.timeouts
        };
        assert_eq!(config.timeouts, timeouts);
        let sockets = SocketOptions {
            backlog: 8,
            accept_keepalive: seconds(9),
            accept_user_timeout: Some(seconds(10)),
            connect_keepalive: Some(seconds(11)),
            connect_user_timeout: Some(seconds(12)),
        };
        assert_eq!(config.sockets, sockets);
    }

    #[test]
    fn our_own_bounds_have_variables_too() {
        let config = read_from(&[
            ("PORTCULLIS_MAX_CONNECTIONS", "3"),
            ("PORTCULLIS_MAX_HEADERS", "4"),
            ("PORTCULLIS_MAX_RESPONSE_HEAD", "8192"),
            ("PORTCULLIS_MAX_OPEN_HEADS", "1048576"),
            ("PORTCULLIS_REQUEST_HEAD_TIMEOUT", "5s"),
            ("PORTCULLIS_HANDSHAKE_TIMEOUT", "6s"),
            ("PORTCULLIS_IDLE_TIMEOUT", "7s"),
            ("PORTCULLIS_OPAQUE_IDLE_TIMEOUT", "8s"),
            ("PORTCULLIS_HTTP2_MAX_CARRIED", "9"),
            ("PORTCULLIS_STALL_TIMEOUT", "10s"),
        ])
        .unwrap();
        let (limits, timeouts) = (config.limits, config.timeouts);
        assert_eq!((limits.connections, limits.headers, limits.response_head), (3, 4, 8192));
        assert_eq!(limits.heads, 1_048_576);
        assert_eq!(limits.http2_carried, Some(9));
        let got = [timeouts.request_head, timeouts.handshake, timeouts.idle];
        assert_eq!(got, [5, 6, 7].map(Duration::from_secs));
        assert_eq!(timeouts.opaque_idle, Some(Duration::from_secs(8)));
        assert_eq!(timeouts.stall, Some(Duration::from_secs(10)));
        let off = read_from(&[("PORTCULLIS_OPAQUE_IDLE_TIMEOUT", "0")]).unwrap();
        assert_eq!(off.timeouts.opaque_idle, None);
        assert_eq!(off.timeouts.stall, Some(Duration::from_secs(3600)));
        let off = read_from(&[("PORTCULLIS_STALL_TIMEOUT", "0")]).unwrap();
        assert_eq!(off.timeouts.stall, None);
    }

    #[test]
    fn what_cannot_be_a_bound_is_refused_by_name_value_and_what_is_allowed() {
        let wrong = [
            ("PORTCULLIS_MAX_IN_FLIGHT", "0", "expected a whole number above 0"),
            ("PORTCULLIS_LISTEN_BACKLOG", "-1", "expected a whole number above 0"),
            ("PORTCULLIS_IDLE_TIMEOUT", "0", "expected more than 0"),
            ("PORTCULLIS_MAX_REQUEST_HEAD", "100", "expected 8192 to 16777216 bytes"),
            ("PORTCULLIS_MAX_RESPONSE_HEAD", "100", "expected 8192 to 16777216 bytes"),
            ("PORTCULLIS_MAX_OPEN_HEADS", "1000", "expected 1048576 to 1073741824 bytes"),
            ("PORTCULLIS_HTTP2_STREAM_WINDOW", "2147483648", "expected 1 to 2147483647 bytes"),
            ("PORTCULLIS_HTTP2_MAX_FRAME", "16383", "expected 16384 to 16777215 bytes"),
            ("PORTCULLIS_HTTP2_ADAPTIVE_WINDOW", "yes", "expected true or false"),
        ];
        for (name, value, expected) in wrong {
            let errors = read_from(&[(name, value)]).unwrap_err();
            assert_eq!(errors, [format!("{name}: `{value}`: {expected}")]);
        }
    }
}
