#!/usr/bin/env bash
# vLLM with the NIXL connector: two engines prefill, two decode, one GPU each. --mock simulates them.
source "$(dirname "$0")/../lib.sh"

# VLLM_NIXL_SIDE_CHANNEL_PORT   where decode engines ask for blocks; one port per engine on this machine
# --kv-transfer-config          kv_both: an engine does not care which role the router gives it; recompute: a prompt whose
#                               prefill engine died before its blocks were fetched is computed again and not answered with 500
# --enable-prefix-caching       what the router routes by
# --kv-events-config            tells the router which blocks are cached
real() {
  local gpu=$2 http=$3 events=$4 side=$5
  CUDA_VISIBLE_DEVICES=$gpu VLLM_NIXL_SIDE_CHANNEL_PORT=$side exec vllm serve "$MODEL_DIR" --served-model-name "$MODEL" \
    --port "$http" --enable-prefix-caching --kv-events-config "$(kv_events "$events")" \
    --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "recompute"}'
}

launch vllm nixl prefill prefill decode decode
