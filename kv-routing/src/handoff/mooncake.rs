//! vLLM with the Mooncake connector: both sides meet under a transfer id that the router mints.

use super::edit::{Edit, OneToken, edit, one_token, string};
use super::{HandoffError, Transfer};

fn transfer_id(transfer: &Transfer<'_>) -> String {
    format!("xfer-{:016x}", transfer.id)
}

pub(super) fn prefill(body: &[u8], transfer: &Transfer<'_>, how: OneToken) -> Result<Vec<u8>, HandoffError> {
    let params = format!(
        "{{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"transfer_id\":\"{}\"}}",
        transfer_id(transfer)
    );
    one_token(body, how, vec![Edit::Set("kv_transfer_params", params.into_bytes())])
}

pub(super) fn decode(body: &[u8], transfer: &Transfer<'_>) -> Result<Vec<u8>, HandoffError> {
    let engine = transfer.engine_id.ok_or(HandoffError::Unknown("engine_id"))?;
    let address = format!("http://{}:{}", transfer.bootstrap_host, transfer.bootstrap_port);
    let mut params = b"{\"do_remote_decode\":false,\"do_remote_prefill\":true,\"remote_bootstrap_addr\":".to_vec();
    params.extend(string(&address));
    params.extend_from_slice(b",\"remote_engine_id\":");
    params.extend(string(engine));
    params.extend_from_slice(b",\"transfer_id\":");
    params.extend(string(&transfer_id(transfer)));
    params.push(b'}');
    edit(body, &[Edit::Set("kv_transfer_params", params)])
}
