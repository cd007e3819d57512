#!/usr/bin/env bash
# Two vLLM engines that do everything, one GPU each, routed by KV cache. --mock simulates them.
source "$(dirname "$0")/../lib.sh"

# --enable-prefix-caching       what the router routes by
# --enable-prompt-tokens-details answers tell the cached tokens, so that predictions can be checked
# --kv-events-config            tells the router which blocks are cached
real() {
  local gpu=$2 http=$3 events=$4
  CUDA_VISIBLE_DEVICES=$gpu exec vllm serve "$MODEL_DIR" --served-model-name "$MODEL" --port "$http" \
    --enable-prefix-caching --enable-prompt-tokens-details --kv-events-config "$(kv_events "$events")"
}

launch vllm nixl both both
