//! How policies are written for clients, as the settings have it.

use policy_engine::config::ControllerConfig;
use policy_proto::compat::EncodeOptions;

/// The options of encoding that follow from `config`.
pub(super) fn encode_options(config: &ControllerConfig) -> EncodeOptions {
    EncodeOptions { localhost_authorization: config.localhost_authorization }
}
