//! The settings of the proof of redirection.

use super::parse;
use super::reader::Reader;
use crate::args::RunArgs;
use crate::capture::Capture;
use std::num::NonZeroU16;

/// Reads the proof. `others`: the ports that the proxy listens on.
pub(super) fn capture(
    args: &RunArgs,
    reader: &mut Reader<'_>,
    mut others: impl Iterator<Item = u16>,
) -> Option<Capture> {
    let given = reader.lookup("canary", args.capture.canary.as_ref(), &[]);
    let canary = reader.read(given, None, |text| parse::canary(text).map(Some));
    let given = reader.lookup("capture-port", args.capture.capture_port.as_ref(), &[]);
    let port = reader.read(given, PORT, parse::port);
    if canary.is_some() && others.any(|other| other == port.get()) {
        reader.fail(format!(
            "--capture-port: `{port}`: the proxy listens on it; expected a port that nobody listens on"
        ));
    }
    canary.map(|canary| Capture::new(canary, port))
}

const PORT: NonZeroU16 = NonZeroU16::MIN.saturating_add(4191);
