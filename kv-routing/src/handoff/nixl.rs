//! vLLM with the NIXL connector: the decode engine pulls what the prefill engine holds.

use super::edit::{Edit, OneToken, edit, one_token};
use super::{HandoffError, PrefillAnswer};

const ASK: &[u8] = b"{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"remote_engine_id\":null,\
\"remote_block_ids\":null,\"remote_host\":null,\"remote_port\":null}";

pub(super) fn prefill(body: &[u8], how: OneToken) -> Result<Vec<u8>, HandoffError> {
    one_token(body, how, vec![Edit::Set("kv_transfer_params", ASK.to_vec())])
}

pub(super) fn decode(body: &[u8], answer: Option<&PrefillAnswer<'_>>) -> Result<Vec<u8>, HandoffError> {
    let params = answer.and_then(|answer| answer.kv_transfer_params).ok_or(HandoffError::Missing {
        field: "kv_transfer_params",
        hint: "vLLM: --kv-transfer-config with the NixlConnector",
    })?;
    edit(body, &[Edit::Set("kv_transfer_params", params.to_vec())])
}
