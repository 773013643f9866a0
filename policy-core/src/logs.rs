//! Log settings of a running proxy.

use std::sync::Arc;

/// Log settings of a running proxy. Unset fields keep the values that the proxy was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Logs {
    /// A filter of log lines, as `tracing` takes it.
    pub filter: Option<Arc<str>>,
    /// The access log.
    pub access_log: Option<AccessLogs>,
}

/// The format of a proxy's access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessLogs {
    /// None.
    Off,
    /// One line per request, like Apache's common log.
    Apache,
    /// One JSON object per request.
    Json,
}

impl AccessLogs {
    /// All of them, for messages and tests.
    pub const ALL: [AccessLogs; 3] = [Self::Off, Self::Apache, Self::Json];

    /// The value as flags and annotations write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Apache => "apache",
            Self::Json => "json",
        }
    }

    /// Reads what flags and annotations write.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}
