//! Prefill and decode on different engines. The decode engines check what they are sent: they answer 500 to parameters
//! that do not name a held prefill of the very same prompt.

mod aborts;
mod chats;
mod failures;
mod ranks;

use std::time::Duration;

use e2e::disagg::Split;
use e2e::engine;
use e2e::wait;
use mock_engine::{EngineConfig, PdProtocol, TransferConfig};

const PROTOCOLS: [PdProtocol; 4] = [PdProtocol::Nixl, PdProtocol::Mooncake, PdProtocol::Sglang, PdProtocol::Trtllm];

fn config(protocol: PdProtocol) -> EngineConfig {
    EngineConfig { transfer: TransferConfig { protocol, ..TransferConfig::default() }, ..engine::config() }
}

/// Nothing is booked any more in any thread of Envoy.
async fn expect_no_bookings(split: &Split) {
    wait::until("no bookings", Duration::from_secs(5), async || {
        let envoys = split.stack.bridge.get("/envoys").await;
        let rows = envoys["envoys"][0]["load_rows"].as_array().expect("load rows").clone();
        (!rows.is_empty() && rows.iter().all(|row| row["requests"] == 0)).then_some(())
    })
    .await;
}
