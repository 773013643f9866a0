//! The outbound half of a pod's sidecar: what pod, namespace and installation say about it, and what the
//! two containers are told.

use super::outbound_settings::{Hindrance, OutboundSettings, OutboundTransport, Unanswered};
use super::ports::PortList;
use super::setting::{ENABLED, MESH_ONLY};
use super::sidecar::{ADMIN_PORT, CANARY, CAPTURE_PORT, OUTBOUND_PORT};
use super::value::Stated;
use policy_crds::{FieldError, OutboundMode};

/// Prefix of the init container's argument with the port that connections are redirected to.
pub(super) const PORT_ARGUMENT: &str = "--outbound-port=";
/// Prefix of its argument with the destination ports that are not redirected.
pub(super) const SKIP_ARGUMENT: &str = "--skip-outbound-ports=";
/// The variable with the mode.
pub(super) const MODE_VARIABLE: &str = "PORTCULLIS_OUTBOUND_MODE";

/// The outbound half of a pod's sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outbound {
    mode: OutboundMode,
    /// Destination ports that are not redirected.
    skipped: PortList,
}

/// Takes the value of a pod, unless it loosens `mesh-only` of its namespace or of the installation.
///
/// # Errors
/// It does.
pub(super) fn not_loosened(
    own: Stated,
    around: Option<Stated>,
) -> Result<Option<Stated>, Vec<FieldError>> {
    match around.filter(|around| around.value == MESH_ONLY && own.value != MESH_ONLY) {
        Some(around) => {
            let message = format!(
                "`{}` loosens `{MESH_ONLY}` of {}; a pod may only be stricter",
                own.value, around.field
            );
            Err(vec![FieldError { field: own.field, message }])
        }
        None => Ok(Some(own)),
    }
}

impl Outbound {
    /// Determines the outbound half of a pod from the two settings, with warnings for its author.
    /// `hindrance`: the reason why no pod can have it.
    ///
    /// # Errors
    /// The settings contradict each other, or `mesh-only` cannot be kept.
    pub(super) fn of(
        mode: Option<&Stated>,
        skipped: Option<&Stated>,
        hindrance: Option<Hindrance>,
    ) -> Result<(Self, Vec<String>), Vec<FieldError>> {
        let list = skipped.map_or("", |stated| &stated.value);
        let list = PortList::numbers(list).unwrap_or_default();
        let off = Self { mode: OutboundMode::None, skipped: PortList::default() };
        let on = match mode.map(|stated| (stated.value.as_str(), stated)) {
            Some((MESH_ONLY, stated)) => {
                let errors =
                    contradictions(stated, skipped.filter(|_| !list.is_empty()), hindrance);
                if !errors.is_empty() {
                    return Err(errors);
                }
                OutboundMode::MeshOnly
            }
            Some((ENABLED, stated)) => {
                if let Some(hindrance) = hindrance {
                    let warning = format!("{}: {}", stated.field, hindrance.left_out());
                    return Ok((off, vec![warning]));
                }
                OutboundMode::On
            }
            Some(_) | None => {
                // A default of the installation is for its other pods.
                let idle = skipped.filter(|stated| !list.is_empty() && !stated.is_default);
                let idle = idle.map(|stated| format!("{}: {WITHOUT_OUTBOUND}", stated.field));
                return Ok((off, idle.into_iter().collect()));
            }
        };
        Ok((Self { mode: on, skipped: list }, Vec::new()))
    }

    /// True if the pod's own connections are redirected.
    pub(super) fn is_on(&self) -> bool {
        self.mode != OutboundMode::None
    }

    /// Returns the further arguments of the init container.
    pub(super) fn arguments(&self) -> Vec<String> {
        if !self.is_on() {
            return Vec::new();
        }
        let mut arguments =
            vec![format!("{PORT_ARGUMENT}{OUTBOUND_PORT}"), format!("--canary={CANARY}")];
        if !self.skipped.is_empty() {
            arguments.push(format!("{SKIP_ARGUMENT}{}", self.skipped.text()));
        }
        arguments
    }

    /// Returns the further variables of the sidecar. `ipv4_only`: pods may lack IPv6.
    pub(super) fn variables(
        &self,
        settings: &OutboundSettings,
        ipv4_only: bool,
    ) -> Vec<(&'static str, String)> {
        let mode = match self.mode {
            OutboundMode::None => return Vec::new(),
            OutboundMode::On => "on",
            OutboundMode::MeshOnly => MESH_ONLY,
        };
        let six = if ipv4_only { String::new() } else { format!(",[::1]:{OUTBOUND_PORT}") };
        let mut variables = vec![
            ("PORTCULLIS_OUTBOUND_LISTEN", format!("127.0.0.1:{OUTBOUND_PORT}{six}")),
            (MODE_VARIABLE, mode.to_owned()),
            ("PORTCULLIS_CANARY", CANARY.to_owned()),
        ];
        let mut add = |name, value: &str| {
            if !value.is_empty() {
                variables.push((name, value.to_owned()));
            }
        };
        add(
            "PORTCULLIS_OUTBOUND_TRANSPORT",
            match settings.transport {
                OutboundTransport::Original => "",
                OutboundTransport::Header => "header",
            },
        );
        add(
            "PORTCULLIS_OUTBOUND_UNANSWERED",
            match settings.unanswered {
                Unanswered::Refuse => "",
                Unanswered::Plaintext => "plaintext",
            },
        );
        add("PORTCULLIS_OUTBOUND_NETWORKS", &joined(&settings.networks));
        if self.mode == OutboundMode::MeshOnly {
            add("PORTCULLIS_OUTBOUND_PLAINTEXT_ALLOWED", &joined(&settings.plaintext_allowed));
        }
        variables
    }

    /// Returns the port that the start-up and readiness probes ask.
    pub(super) fn probe_port(&self) -> u16 {
        if self.is_on() { CAPTURE_PORT } else { ADMIN_PORT }
    }

    /// Returns the further ports that the application cannot have.
    pub(super) fn taken_ports(&self) -> &'static [u16] {
        if self.is_on() { &[OUTBOUND_PORT, CAPTURE_PORT] } else { &[] }
    }
}

fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Warning for ports that are not redirected where nothing is.
const WITHOUT_OUTBOUND: &str = "has no effect on this sidecar, which leaves what the pod sends alone \
     without `portcullis.dev/outbound: enabled`";

/// Returns what contradicts `mesh-only`.
fn contradictions(
    mode: &Stated,
    skipped: Option<&Stated>,
    hindrance: Option<Hindrance>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(hindrance) = hindrance {
        let message = format!(
            "`{MESH_ONLY}` needs {}; what the pod sends could not be held to it",
            hindrance.needed()
        );
        errors.push(FieldError { field: mode.field.clone(), message });
    }
    if let Some(Stated { field, value, .. }) = skipped {
        let message = format!(
            "`{value}` would not be redirected, which `{MESH_ONLY}` of {} excludes",
            mode.field
        );
        errors.push(FieldError { field: field.clone(), message });
    }
    errors
}
