#!/usr/bin/env bash
# Two TensorRT-LLM engines that do everything, one GPU each, routed by KV cache. --mock simulates them.
source "$(dirname "$0")/../lib.sh"

# enable_block_reuse       what the router routes by
# kv_events_config         tells the router which blocks are cached, over ZeroMQ (releases from 1.3 on)
# return_perf_metrics      load, for the router
real() {
  local gpu=$2 http=$3 events=$4 options=$RUN_DIR/trtllm-$3.yaml
  printf 'return_perf_metrics: true\nkv_cache_config: {enable_block_reuse: true, kv_events_config: %s}\n' \
    "$(kv_events "$events")" >"$options"
  CUDA_VISIBLE_DEVICES=$gpu exec trtllm-serve "$MODEL_DIR" --host 127.0.0.1 --port "$http" --backend pytorch \
    --extra_llm_api_options "$options"
}

launch trtllm trtllm both both
