//! The expected response of a request.

use super::header_values::{ExpectedHeaders, differences};
use crate::request::ClientResponse;
use serde::Deserialize;

/// The response that the client receives; absent fields are not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedResponse {
    /// HTTP status.
    pub status: Option<u16>,
    /// gRPC status code.
    pub grpc_status: Option<u16>,
    /// True: the gRPC status is in the headers, and neither a message nor trailers follow.
    #[serde(default)]
    pub trailers_only: bool,
    /// Headers; `null`: absent.
    #[serde(default)]
    pub headers: ExpectedHeaders,
}

impl ExpectedResponse {
    /// True if only a gRPC response can have what it states.
    pub(super) fn is_of_grpc(&self) -> bool {
        self.grpc_status.is_some() || self.trailers_only
    }

    /// Differences of the actual response; empty if there are none.
    pub(super) fn differs(&self, found: &ClientResponse) -> Vec<String> {
        let mut all = Vec::new();
        let statuses = [
            ("status", self.status, found.status),
            ("gRPC status", self.grpc_status, found.grpc_status),
        ];
        for (what, expected, found) in statuses {
            if expected.is_some() && expected != found {
                all.push(format!("{what} is {found:?}, expected {expected:?}"));
            }
        }
        let trailers_only = found.header("grpc-status").is_some()
            && found.trailers.is_empty()
            && found.body.is_empty();
        if self.trailers_only && !trailers_only {
            all.push("the response has a message or trailers of its own".to_owned());
        }
        all.extend(differences(&self.headers, |name| {
            let lines = found.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            lines.map(|(_, value)| value.as_str()).collect()
        }));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Outcome, Protocol};

    fn response(grpc_in_trailers: bool) -> ClientResponse {
        let status = ("grpc-status".to_owned(), "7".to_owned());
        let other = ("x-a".to_owned(), "1".to_owned());
        let (headers, trailers) = if grpc_in_trailers {
            (vec![other], vec![status])
        } else {
            (vec![other, status], Vec::new())
        };
        ClientResponse {
            protocol: Protocol::Grpc,
            outcome: Outcome::Refused,
            status: Some(200),
            grpc_status: Some(7),
            grpc_message: None,
            headers,
            trailers,
            body: String::new(),
            local: None,
            elapsed_ms: 0,
        }
    }

    fn expected(text: &str) -> ExpectedResponse {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn each_stated_part_of_a_response_is_compared() {
        let found = response(false);
        for holds in [
            "{status: 200, grpcStatus: 7, trailersOnly: true}",
            "{headers: {x-a: \"1\", X-A: [\"1\"], x-b: null}}",
        ] {
            assert_eq!(expected(holds).differs(&found), Vec::<String>::new(), "{holds}");
        }
        for broken in [
            "{status: 403}",
            "{grpcStatus: 5}",
            "{headers: {x-a: null}}",
            "{headers: {x-a: [\"1\", \"1\"]}}",
            "{headers: {x-b: \"1\"}}",
        ] {
            assert_eq!(expected(broken).differs(&found).len(), 1, "{broken}");
        }
        assert_eq!(expected("{trailersOnly: true}").differs(&response(true)).len(), 1);
    }
}
