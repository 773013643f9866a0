//! How policies are put into Linkerd's messages.

use policy_engine::config::ControllerConfig;
use policy_proto::compat::EncodeOptions;

/// What the configuration says about it.
pub(super) fn encode_options(config: &ControllerConfig) -> EncodeOptions {
    EncodeOptions { localhost_authorization: config.localhost_authorization }
}
