#!/usr/bin/env bash
# Two SGLang engines that do everything, one GPU each, routed by KV cache. --mock simulates them.
source "$(dirname "$0")/../lib.sh"

# --enable-metrics              load, for the router
# --enable-cache-report         answers tell the cached tokens, so that predictions can be checked
# --page-size 16                blocks of the size the router prices by; SGLang's own default of 1 works too, with more events
# --kv-events-config            tells the router which blocks are cached
real() {
  local gpu=$2 http=$3 events=$4
  CUDA_VISIBLE_DEVICES=$gpu exec python3 -m sglang.launch_server --model-path "$MODEL_DIR" --served-model-name "$MODEL" \
    --port "$http" --enable-metrics --enable-cache-report --page-size 16 --kv-events-config "$(sglang_events "$events")"
}

launch sglang sglang both both
